// Gradients of whole networks: every weight's in f32 against f64, and f64 against central differences.
#include <cmath>
#include <cstdio>
#include <map>

#include "grad/differentiate.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "networks.h"
#include "ops/check.h"
#include "passes/pass.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::testing {
namespace gradients_test {

// Old forms expanded and shapes folded, all floats in f32; nothing fused.
Graph prepared(Graph graph) {
  bind_open_inputs(graph);
  PassOptions options{.precision = Precision::fp32};
  for (const Pass& pass : all_passes()) {
    const bool simple = pass.name == "fold" || pass.name == "cse" || pass.name == "simplify" || pass.name == "dce";
    if (pass.optional && !simple) options.off.insert(std::string(pass.name));
  }
  Graph out = optimised(std::move(graph), options);
  infer(out);
  return out;
}

// The same in f64.
Graph widened(Graph graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& v = graph.value(ValueId{i});
    if (!is_float(v.dtype)) continue;
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state) v.constant = convert(v.constant, DType::f64);
    v.dtype = DType::f64;
  }
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (!node.attrs.has("to")) continue;
    const std::optional<DType> to = dtype_from_onnx(node.attrs.integer("to"));
    if (to && is_float(*to)) node.attrs.set("to", onnx_code(DType::f64));
  }
  infer(graph);
  return graph;
}

// A scalar that every output is part of, and the weights that it depends on.
struct Problem {
  Graph graph;
  std::vector<ValueId> wrt;
  ValueId loss;
};

Problem problem_of(Graph graph) {
  Problem out{.graph = std::move(graph), .wrt = {}, .loss = {}};
  Builder b(out.graph);
  Random random(11);
  for (const Graph::Output& output : std::vector<Graph::Output>(out.graph.outputs())) {
    ValueId value = output.value;  // without the rounding to a shorter type at the end
    const NodeId last = out.graph.value(value).producer;
    if (last.present() && out.graph.node(last).op->name == "Cast") value = out.graph.node(last).inputs[0];
    const Shape shape = b.shape(value);
    Tensor weights = Tensor::zeros(DType::f64, shape);
    for (int64_t i = 0; i < weights.elements(); ++i) weights.data<double>()[i] = random.normal();
    const ValueId sum = b.add(
        "ReduceSum", {b.add("Mul", {value, b.add("Cast", {b.constant(weights)}, {{"to", onnx_code(b.dtype(value))}})})},
        {{"keepdims", int64_t{0}}});
    out.loss = out.loss.present() ? b.add("Add", {out.loss, sum}) : sum;
  }
  const auto uses = out.graph.uses();
  for (int i = 0; i < out.graph.value_count(); ++i) {
    const Value& v = out.graph.value(ValueId{i});
    if (v.kind != ValueKind::constant || !is_float(v.dtype) || v.constant.elements() < 2) continue;
    const bool is_weight = std::ranges::any_of(uses[static_cast<size_t>(i)], [&](NodeId id) {
      return out.graph.node(id).op->traits.product && out.graph.node(id).op->domain.empty();
    });
    if (is_weight) out.wrt.push_back(ValueId{i});
  }
  return out;
}

std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> out;
  Random random(seed);
  for (const ValueId id : graph.inputs()) {
    const Value& v = graph.value(id);
    Tensor tensor = Tensor::zeros(v.dtype, *v.shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      store_element(
          v.dtype, tensor.raw(), i,
          is_float(v.dtype) ? random.normal() : static_cast<double>(random.integer(0, v.dtype == DType::u8 ? 255 : 1)));
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

// The gradients of every weight, by its name or index; in f64.
std::map<std::string, Tensor> gradients_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  Problem problem = problem_of(graph);
  std::vector<Graph::Output> outputs;
  const std::vector<ValueId> gradients = differentiate(problem.graph, problem.loss, problem.wrt);
  for (size_t i = 0; i < gradients.size(); ++i) {
    outputs.push_back({gradients[i], problem.graph.value(problem.wrt[i]).name + "#" + std::to_string(i)});
  }
  problem.graph.replace_outputs(outputs);
  problem.graph.compact();
  std::vector<Tensor> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool wide = problem.graph.value(problem.graph.inputs()[i]).dtype == DType::f64;
    given.push_back(wide ? convert(inputs[i], DType::f64) : inputs[i]);
  }
  std::map<std::string, Tensor> out;
  const std::vector<Tensor> results = interpret(problem.graph, given);
  for (size_t i = 0; i < results.size(); ++i) out[outputs[i].name] = convert(results[i], DType::f64);
  return out;
}

class NetworkGradients : public NetworkTest {};

// Norm-wise by tensor. A value at a kink may fall to different sides in f32 and f64, and take a tensor of few elements
// with it: then other inputs decide.
TEST_P(NetworkGradients, AreThoseOfF64) {
  constexpr double kBound = 1e-5;
  const Graph f32 = prepared(network_.load()), f64 = widened(f32);
  // Saturated by random images: 1 - y, of which Sigmoid's gradient is made, has few digits left (in PyTorch, too).
  const std::string saturated = "_classic_predictor.fc9.";
  std::map<std::string, double> errors;
  for (const uint64_t seed : {7, 8, 9}) {
    const std::vector<Tensor> inputs = random_inputs(f32, seed);
    const std::map<std::string, Tensor> expected = gradients_of(f64, inputs);
    for (const auto& [name, gradient] : gradients_of(f32, inputs)) {
      if (name.starts_with(saturated)) continue;
      const double error = relative_l2(gradient, expected.at(name));
      const auto [at, fresh] = errors.emplace(name, error);
      at->second = std::min(at->second, error);
    }
    if (std::ranges::all_of(errors, [](const auto& each) { return each.second <= kBound; })) break;
  }
  ASSERT_FALSE(errors.empty());
  double worst = 0;
  for (const auto& [name, error] : errors) {
    worst = std::max(worst, error);
    EXPECT_LE(error, kBound) << name;
  }
  std::printf("%s: %zu weights, largest error %.1e\n", GetParam().c_str(), errors.size(), worst);
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkGradients,
                         ::testing::Values("tiny_driving_vision", "tiny_driving_policy", "tiny_driving_supercombo",
                                           "tiny_dmonitoring_model", "tiny_big_driving_supercombo", "tiny_supercombo",
                                           "tiny_driving_vision_v0.10.0", "tiny_driving_policy_v0.10.0",
                                           "openpilot_dm/dmonitoring_model_2021-06.onnx",
                                           "openpilot_dm/dmonitoring_model_v0.8.9_2021-08.onnx",
                                           "controls_challenge/tinyphysics.onnx"),
                         test_name);

}  // namespace gradients_test
}  // namespace sparkpilot::testing

// Gradients of whole networks in f32: every weight's against f64, and those of adapters against what f64 gives for the
// weights that they change.
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "adapters/apply.h"
#include "adapters/test_models.h"
#include "grad/differentiate.h"
#include "ir/dimensions.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "networks.h"
#include "ops/check.h"
#include "passes/pass.h"
#include "passes/test_graph.h"
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

using Gradients = std::map<std::string, Tensor>;  // by name or index; in f64

Gradients solved(Problem problem, const std::vector<Tensor>& inputs) {
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
  Gradients out;
  const std::vector<Tensor> results = interpret(problem.graph, given);
  for (size_t i = 0; i < results.size(); ++i) out[outputs[i].name] = convert(results[i], DType::f64);
  return out;
}

Gradients gradients_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  return solved(problem_of(graph), inputs);
}

// Norm-wise by tensor. A value at a kink may fall to different sides in f32 and f64, and take a tensor of few elements
// with it: then other inputs decide.
void expect_close(const std::string& network, const Graph& graph,
                  const std::function<Gradients(const std::vector<Tensor>&)>& of,
                  const std::function<Gradients(const std::vector<Tensor>&)>& reference) {
  constexpr double kBound = 1e-5;
  // Saturated by random images: 1 - y, of which Sigmoid's gradient is made, has few digits left (in PyTorch, too).
  const std::string saturated = "_classic_predictor.fc9.";
  std::map<std::string, double> errors;
  for (const uint64_t seed : {7, 8, 9}) {
    const std::vector<Tensor> inputs = random_inputs(graph, seed);
    const Gradients expected = reference(inputs);
    for (const auto& [name, gradient] : of(inputs)) {
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
  std::printf("%s: %zu tensors, largest error %.1e\n", network.c_str(), errors.size(), worst);
}

class NetworkGradients : public NetworkTest {};

TEST_P(NetworkGradients, AreThoseOfF64) {
  const Graph f32 = prepared(network_.load()), f64 = in_f64(f32);
  expect_close(
      GetParam(), f32, [&](const std::vector<Tensor>& inputs) { return gradients_of(f32, inputs); },
      [&](const std::vector<Tensor>& inputs) { return gradients_of(f64, inputs); });
}

INSTANTIATE_TEST_SUITE_P(Networks, NetworkGradients,
                         ::testing::Values("tiny_driving_vision", "tiny_driving_policy", "tiny_driving_supercombo",
                                           "tiny_dmonitoring_model", "tiny_big_driving_supercombo", "tiny_supercombo",
                                           "tiny_driving_vision_v0.10.0", "tiny_driving_policy_v0.10.0",
                                           "openpilot_dm/dmonitoring_model_2021-06.onnx",
                                           "openpilot_dm/dmonitoring_model_v0.8.9_2021-08.onnx",
                                           "controls_challenge/tinyphysics.onnx"),
                         test_name);

// One layer of an adapter, all in double, as matrices: W [out, in], A [groups r, in], B [out, r].
struct DoubleLayer {
  DoubleLayer(const Adapter& adapter, const AdapterLayer& mine, const Layer& layer, const Tensor& weights)
      : out(layer.out()),
        in(layer.in()),
        of_group(layer.out() / layer.groups),
        r(mine.rank() / layer.groups),
        s(adapter.scale(mine)),
        w(convert(weights, DType::f64)),
        a(convert(mine.a, DType::f64)),
        b(convert(mine.b, DType::f64)),
        magnitude(mine.magnitude.present() ? mine.magnitude.shape() : Shape{layer.out()}) {
    v.assign(w.data<double>().begin(), w.data<double>().end());
    gain.assign(static_cast<size_t>(out), 1);
    norm.assign(static_cast<size_t>(out), 1);
    for (int64_t o = 0; o < out; ++o) {
      double squares = 0;
      for (int64_t i = 0; i < in; ++i) {
        double& x = v[static_cast<size_t>(o * in + i)];
        for (int64_t k = 0; k < r; ++k) x += s * b_at(o, k) * a_at(o, k, i);
        squares += x * x;
      }
      if (!mine.magnitude.present()) continue;
      norm[static_cast<size_t>(o)] = std::sqrt(squares);
      gain[static_cast<size_t>(o)] = load_element(DType::f32, mine.magnitude.raw(), o) / std::sqrt(squares);
    }
  }
  double a_at(int64_t o, int64_t k, int64_t i) const { return a.data<double>()[a_place(o, k, i)]; }
  double b_at(int64_t o, int64_t k) const { return b.data<double>()[static_cast<size_t>(o * r + k)]; }
  size_t a_place(int64_t o, int64_t k, int64_t i) const { return static_cast<size_t>((o / of_group * r + k) * in + i); }

  // Of A, B and the magnitudes, with |V| constant, of what flows to the changed weights g V.
  void add_gradients(const std::vector<double>& flows, const std::string& path, Gradients& all) const {
    Tensor da = Tensor::zeros(DType::f64, a.shape()), db = Tensor::zeros(DType::f64, b.shape()),
           dm = Tensor::zeros(DType::f64, magnitude);
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        const auto at = static_cast<size_t>(o * in + i);
        const double to_v = s * gain[static_cast<size_t>(o)] * flows[at];
        dm.data<double>()[static_cast<size_t>(o)] += flows[at] * v[at] / norm[static_cast<size_t>(o)];
        for (int64_t k = 0; k < r; ++k) {
          da.data<double>()[a_place(o, k, i)] += to_v * b_at(o, k);
          db.data<double>()[static_cast<size_t>(o * r + k)] += to_v * a_at(o, k, i);
        }
      }
    }
    all[adapter_parameter_name(path, kLoraA)] = da;
    all[adapter_parameter_name(path, kLoraB)] = db;
    all[adapter_parameter_name(path, kLoraMagnitude)] = dm;
  }

  int64_t out, in, of_group, r;
  double s;
  Tensor w, a, b;
  Shape magnitude;
  std::vector<double> v, gain, norm;
};

// A model with an adapter in its weights, in f64, from which the gradients of the adapter's tensors follow.
class MergedReference {
 public:
  MergedReference(const Graph& file, const Graph& named, const Adapter& adapter) : graph_(in_f64(named)) {
    const std::vector<Layer> layers = match_layers(file, adapter);
    for (size_t n = 0; n < layers.size(); ++n) {
      layers_.emplace_back(adapter, adapter.layers[n], layers[n], layer_weights(file, layers[n]));
      paths_.push_back(layers[n].path);
      const DoubleLayer& layer = layers_.back();
      bool found = false;
      for (const NodeId id : graph_.order()) {
        if (graph_.node(id).name != layers[n].path || !graph_.node(id).op->traits.product) continue;
        const Node& node = graph_.node(id);
        found = true;
        const bool turned = !layers[n].conv && node.attrs.integer("transB", 0) == 0;
        Tensor merged = Tensor::zeros(DType::f64, *graph_.value(node.inputs[1]).shape);
        for (int64_t o = 0; o < layer.out; ++o) {
          for (int64_t i = 0; i < layer.in; ++i) {
            merged.data<double>()[static_cast<size_t>(turned ? i * layer.out + o : o * layer.in + i)] =
                layer.gain[static_cast<size_t>(o)] * layer.v[static_cast<size_t>(o * layer.in + i)];
          }
        }
        const ValueId own = graph_.add_constant(merged);
        graph_.value(own).name = layers[n].path;
        graph_.node(id).inputs[1] = own;
        weights_.push_back({n, turned, own});
      }
      EXPECT_TRUE(found) << layers[n].path;
    }
  }

  Gradients operator()(const std::vector<Tensor>& inputs) const {
    Problem problem = problem_of(graph_);
    problem.wrt.clear();
    for (const Weight& each : weights_) problem.wrt.push_back(each.value);
    const Gradients found = solved(std::move(problem), inputs);
    Gradients out;
    for (size_t n = 0; n < layers_.size(); ++n) {
      std::vector<double> flows(layers_[n].v.size());
      for (size_t i = 0; i < weights_.size(); ++i) {
        if (weights_[i].layer != n) continue;
        const std::span<const double> part = found.at(paths_[n] + "#" + std::to_string(i)).data<double>();
        const auto rows = static_cast<size_t>(layers_[n].out), columns = static_cast<size_t>(layers_[n].in);
        for (size_t at = 0; at < flows.size(); ++at) {
          flows[at] += part[weights_[i].turned ? at % columns * rows + at / columns : at];
        }
      }
      layers_[n].add_gradients(flows, paths_[n], out);
    }
    return out;
  }

 private:
  struct Weight {
    size_t layer;
    bool turned;  // [in, out]
    ValueId value;
  };
  Graph graph_;
  std::vector<DoubleLayer> layers_;
  std::vector<std::string> paths_;
  std::vector<Weight> weights_;
};

// Adapters of every kind, on a layer of every form (Gemm, MatMul, convolutions with stride, dilation and groups) and on
// stand-ins. The reference knows nothing of an adapter's nodes.
class AdapterGradients : public ::testing::TestWithParam<std::tuple<std::string, AdapterKind, AdapterForm>> {};

TEST_P(AdapterGradients, AreThoseOfTheMergedWeightsInF64) {
  const auto& [network, kind, form] = GetParam();
  Graph file = network == "every_layer" ? every_layer() : build_zoo_model(network, 1);
  bind_open_inputs(file);
  Adapter adapter = create_adapter(file, {.kind = kind, .rank = 4, .alpha = 3});
  shake(adapter, 8, 0.05);
  Graph named = file;
  name_layers(named);
  const Graph base = prepared(std::move(named));
  Graph f32 = base;
  std::vector<AdapterParameter> parameters = apply_adapter(f32, adapter, match_layers(file, adapter), form).parameters;
  Problem problem = problem_of(f32);
  problem.wrt.clear();
  for (const AdapterParameter& each : parameters) problem.wrt.push_back(each.value);
  const auto of = [&](const std::vector<Tensor>& inputs) {
    Gradients out;
    for (auto& [name, gradient] : solved(problem, inputs)) out[name.substr(0, name.find('#'))] = gradient;
    EXPECT_EQ(out.size(), parameters.size());
    return out;
  };
  expect_close(network + " with " + std::string(name(kind)), f32, of, MergedReference(file, base, adapter));
}

std::string adapter_test_name(const ::testing::TestParamInfo<AdapterGradients::ParamType>& of) {
  const char* form = std::get<2>(of.param) == AdapterForm::weights ? "weights" : "branches";
  return fmt::format("{}_{}_{}", std::get<0>(of.param), name(std::get<1>(of.param)), form);
}

INSTANTIATE_TEST_SUITE_P(Layers, AdapterGradients,
                         ::testing::Combine(::testing::Values("every_layer", "tiny_driving_policy"),
                                            ::testing::Values(AdapterKind::lora, AdapterKind::rslora,
                                                              AdapterKind::dora),
                                            ::testing::Values(AdapterForm::branches, AdapterForm::weights)),
                         adapter_test_name);
INSTANTIATE_TEST_SUITE_P(Images, AdapterGradients,
                         ::testing::Values(std::tuple("tiny_dmonitoring_model", AdapterKind::dora,
                                                      AdapterForm::weights)),
                         adapter_test_name);

}  // namespace gradients_test
}  // namespace sparkpilot::testing

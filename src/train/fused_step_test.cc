// What the passes make of a step: differentiation leaves the fusions of inference as they are, and the backward half
// has its own.
#include <gtest/gtest.h>

#include <set>

#include "adapters/test_models.h"
#include "grad/differentiate.h"
#include "passes/test_graph.h"
#include "train/losses.h"

namespace sparkpilot::train {
namespace fused_step_test {

using testing::random_tensor;
using Texts = std::vector<std::string>;

struct Case {
  const char* activation;
  const char* step;  // in an epilogue
  bool conv;
  AdapterKind kind;
};

// Two layers with an adapter and an activation each, a loss and the gradient of all that is trained. Parameters and
// norms are inputs: as in a step, nothing knows their values.
Graph step_of(const Case& of) {
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  const auto layer = [&](ValueId x, const std::string& name) {
    const ValueId bias = b.constant(random_tensor({8}, 4), name + ".bias");
    if (!of.conv) {
      const ValueId w = b.constant(random_tensor({8, 8}, 3), name + ".weight");
      return b.add("Gemm", {x, w, bias}, {{"transB", int64_t{1}}});
    }
    const ValueId w = b.constant(random_tensor({8, 8, 3, 3}, 3, DType::f32, 0.3), name + ".weight");
    return b.add("Conv", {x, w, bias}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  };
  ValueId y = b.input("x", DType::f32, of.conv ? Shape{2, 8, 6, 6} : Shape{4, 8});
  for (const char* name : {"first", "second"}) y = b.add(of.activation, {layer(y, name)});
  b.output(y, "y");
  Adapter adapter = create_adapter(graph, {.kind = of.kind, .rank = 2});
  testing::shake(adapter, 3);
  const std::vector<Layer> layers = match_layers(graph, adapter);
  name_layers(graph);
  prepare(graph, {.precision = Precision::fp32});
  const AppliedAdapter applied = apply_adapter(graph, adapter, layers);
  std::vector<ValueId> wrt;
  const auto take = [&](ValueId constant, const std::string& name) {
    const ValueId input = graph.add_input(name, DType::f32, *graph.value(constant).shape);
    graph.replace_uses(constant, input);
    return input;
  };
  for (const AdapterParameter& each : applied.parameters) wrt.push_back(take(each.value, each.name));
  for (const AdapterNorm& each : applied.norms) take(each.value, each.name);
  Builder more(graph);
  y = graph.outputs()[0].value;
  const ValueId loss = mean_squared_error(more, y, more.input("target", DType::f32, more.shape(y)));
  std::vector<Graph::Output> outputs{{loss, "loss"}};
  for (const ValueId id : differentiate(graph, loss, wrt)) outputs.push_back({id, fmt::format("{}", outputs.size())});
  graph.replace_outputs(outputs);
  graph.compact();
  return graph;
}

Graph lowered(const Graph& graph, const std::set<std::string>& off = {}, Device device = Device::cpu) {
  Graph out = graph;
  run_passes(out, {.off = off}, {.device = device, .training = true});
  return out;
}

// The lists of an attribute, of all nodes of an internal op: its steps without their operands.
std::vector<Texts> steps_of(const Graph& graph, const char* op, const char* attribute) {
  std::vector<Texts> out;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, op) || !node.attrs.has(attribute)) continue;
    out.emplace_back();
    for (const std::string& step : node.attrs.texts(attribute)) out.back().push_back(step.substr(0, step.find(':')));
  }
  return out;
}

int count_of(const std::vector<Texts>& all, const Texts& wanted) {
  return static_cast<int>(std::ranges::count(all, wanted));
}

struct Step {
  Case of;
  Graph graph;
  const char* product() const { return of.conv ? "sparkpilot::Conv" : "sparkpilot::Gemm"; }
  bool is(const char* activation) const { return std::string(of.activation) == activation; }
};

// All of them, under their names.
template <typename Test>
void for_each_step(const Test& test) {
  for (const AdapterKind kind : {AdapterKind::lora, AdapterKind::dora}) {
    for (const bool conv : {false, true}) {
      for (const auto& [activation, step] : {std::pair("Relu", "relu"), {"Tanh", "tanh"}, {"Sigmoid", "sigmoid"}}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name(kind), conv ? "Conv" : "Gemm", activation));
        const Case of{activation, step, conv, kind};
        test(Step{of, step_of(of)});
      }
    }
  }
}

// LoRA's low-rank part, the bias and the activation are in the base's product, as the gradient reads the activation's
// output alone. Of DoRA the sum has a second reader, its magnitude's gradient: gain, bias and activation are one node.
TEST(FusedStep, KeepsTheForwardEpilogues) {
  for_each_step([](const Step& step) {
    for (const Device device : {Device::cpu, Device::cuda}) {
      const Graph graph = lowered(step.graph, {}, device);
      EXPECT_EQ(testing::count(graph, step.of.activation), 0);
      const std::vector<Texts> products = steps_of(graph, step.product(), "epilogue"),
                               chains = steps_of(graph, "sparkpilot::ElementwiseChain", "steps");
      if (step.of.kind == AdapterKind::dora) {
        EXPECT_EQ(count_of(chains, {"Mul", "Add", step.of.activation}), 2);
      } else {
        EXPECT_EQ(count_of(products, {"add", "add", step.of.step}), 2);
      }
    }
    EXPECT_EQ(testing::count(lowered(step.graph, {"fuse", "elementwise"}), step.of.activation), 2);
  });
}

// Between the layers: what comes back through the base and through the adapter is added, and multiplied with the
// activation's derivative.
TEST(FusedStep, FusesTheBackwardHalf) {
  for_each_step([](const Step& step) {
    const bool relu = step.is("Relu"), dora = step.of.kind == AdapterKind::dora;
    for (const Device device : {Device::cpu, Device::cuda}) {
      const Graph graph = lowered(step.graph, {}, device);
      for (const char* op : {"Add", "Where", "Greater"}) EXPECT_EQ(testing::count(graph, op), 0) << op;
      const std::vector<Texts> products = steps_of(graph, step.product(), "epilogue"),
                               chains = steps_of(graph, "sparkpilot::ElementwiseChain", "steps");
      if (step.of.conv) {  // a transposed convolution has no epilogue: the sum and the derivative are one node
        EXPECT_EQ(std::ranges::count_if(chains, [](const Texts& each) { return each[0] == "Add"; }), 1);
      } else if (relu) {
        EXPECT_EQ(count_of(products, {"add"}), dora ? 3 : 1);  // DoRA's forward sums, too
        EXPECT_EQ(count_of(chains, {"Greater", "Where"}), 1);
      } else {  // Sigmoid's is g y (1 - y)
        EXPECT_EQ(count_of(products, step.is("Sigmoid") ? Texts{"add", "mul", "mul"} : Texts{"add", "mul"}), 1);
      }
    }
    const Graph apart = lowered(step.graph, {"fuse", "elementwise"});
    EXPECT_GE(testing::count(apart, "Add"), 3);
    EXPECT_EQ(testing::count(apart, "Where"), relu ? 2 : 0);
  });
}

// In f32 a sum's order alone moves a gradient by some 1e-5 where terms cancel: both are held to f64.
TEST(FusedStep, GivesTheSameGradients) {
  for_each_step([](const Step& step) {
    const std::vector<Tensor> inputs = testing::inputs_of(step.graph, 5);
    std::vector<Tensor> exact_inputs;
    for (const Tensor& input : inputs) exact_inputs.push_back(convert(input, DType::f64));
    const std::vector<Tensor> exact = interpret(testing::in_f64(step.graph), exact_inputs),
                              apart = interpret(step.graph, inputs), fused = interpret(lowered(step.graph), inputs);
    ASSERT_EQ(fused.size(), step.of.kind == AdapterKind::dora ? 7u : 5u);
    for (size_t i = 0; i < fused.size(); ++i) {
      const double error = testing::distance(apart[i], exact[i]);
      EXPECT_LE(error, 5e-5) << step.graph.outputs()[i].name;
      EXPECT_LE(testing::distance(fused[i], exact[i]), 2 * error + 1e-6) << step.graph.outputs()[i].name;
    }
  });
}

// Where the derivative needs the activation's input, that is kept, and the activation is a node.
TEST(FusedStep, KeepsWhatADerivativeNeeds) {
  const Graph graph = lowered(step_of({"Gelu", "gelu_erf", false, AdapterKind::lora}));
  EXPECT_EQ(testing::count(graph, "Gelu"), 2);
  EXPECT_EQ(count_of(steps_of(graph, "sparkpilot::Gemm", "epilogue"), {"add", "mul"}), 1);
}

}  // namespace fused_step_test
}  // namespace sparkpilot::train

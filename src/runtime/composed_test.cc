// What passes fuse can also run node by node: the kernel of the fused node that does so gives, bit for bit, what the
// graph gives without the pass.
#include <gtest/gtest.h>

#include "passes/test_graph.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

using testing::Net;
using testing::random_tensor;

using Ints = std::vector<int64_t>;

// An image of 3 channels, a first layer, and two inverted bottlenecks with a residual.
Graph bottlenecks() {
  Net n;
  const auto conv = [&](ValueId x, int64_t out, int64_t kernel, int64_t stride, int64_t group) {
    const int64_t in = n.b.shape(x)[1], pad = kernel / 2;
    return n.op(
        "Conv",
        {x, n.weight({out, in / group, kernel, kernel}, static_cast<uint64_t>(out + kernel)), n.weight({out}, 5)},
        {{"group", group}, {"strides", Ints{stride, stride}}, {"pads", Ints{pad, pad, pad, pad}}});
  };
  ValueId x = n.op("Relu", {conv(n.input("x", {1, 3, 66, 70}), 24, 3, 2, 1)});
  for (int i = 0; i < 2; ++i) {
    const ValueId wide = n.op("Relu", {conv(x, 96, 1, 1, 1)});
    const ValueId filtered = n.op("Clip", {conv(wide, 96, 3, 1, 96), n.scalar(0), n.scalar(6)});
    x = n.op("Add", {conv(filtered, 24, 1, 1, 1), x});
  }
  n.output(x);
  return n.graph;
}

Graph transformer() {
  Net n;
  const ValueId product = n.op("MatMul", {n.input("x", {2, 19, 32}), n.weight({32, 96}, 3)});
  const auto parts = n.b.add_many("Split", {product, n.b.ints({32, 32, 32})}, {{"axis", int64_t{2}}}, 3);
  n.output(
      n.op("Attention", {parts[0], parts[1], parts[2]}, {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{4}}}));
  return n.graph;
}

struct Ran {
  Tensor y;
  int composed = 0;  // nodes that ran the kernel
};

Ran run(const Graph& graph, SessionOptions options, std::string_view kernel = {}) {
  options.threads = 2;
  Session session(graph, std::move(options));
  session.set_input("x", random_tensor(*graph.value(graph.inputs()[0]).shape, 11).view());
  session.run();
  session.run();
  const ConstView view = session.output("y");
  Ran out{
      Tensor::of<float>(view.shape, std::span<const float>(view.as<float>(), static_cast<size_t>(view.elements())))};
  for (const KernelDecision& choice : session.choices()) out.composed += choice.kernel == kernel;
  return out;
}

struct Way {
  Graph (*graph)();
  std::string pass, op, kernel;
};

class Composed : public ::testing::TestWithParam<Way> {};

TEST_P(Composed, GivesWhatTheGraphGivesWithoutThePass) {
  const Graph graph = GetParam().graph();
  SessionOptions node_by_node, composed{.kernels = GetParam().op + "/" + GetParam().kernel};
  node_by_node.passes.off = {GetParam().pass};
  if (GetParam().pass == "planes")
    composed.passes.off = node_by_node.passes.off = {"chain"}, node_by_node.passes.off.insert("planes");
  // Without anything asked for, kernels are chosen in the same way inside and outside.
  const Ran fused = run(graph, composed, GetParam().kernel);
  const Ran expected = run(graph, node_by_node, GetParam().kernel);
  EXPECT_GT(fused.composed, 0);
  EXPECT_EQ(expected.composed, 0);
  ASSERT_EQ(fused.y.shape(), expected.y.shape());
  EXPECT_EQ(std::memcmp(fused.y.raw(), expected.y.raw(), static_cast<size_t>(expected.y.bytes())), 0)
      << testing::distance(fused.y, expected.y);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Composed,
                         ::testing::Values(Way{bottlenecks, "chain", "sparkpilot::ConvChain", "stages"},
                                           Way{bottlenecks, "planes", "sparkpilot::Conv", "moved"},
                                           Way{transformer, "columns", "sparkpilot::Attention", "copied"}),
                         [](const auto& way) { return way.param.kernel; });

}  // namespace
}  // namespace sparkpilot

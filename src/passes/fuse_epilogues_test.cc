#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::random_tensor;
using testing::run_and_compare;
using Steps = std::vector<std::string>;

Steps steps_of(const Graph& graph, std::string_view op) {
  for (const NodeId id : graph.order()) {
    if (is_op(graph.node(id), op)) return graph.node(id).attrs.texts("epilogue");
  }
  return {"no such node"};
}

TEST(FuseEpilogues, ConvTakesBiasActivationResidualAndScale) {
  Net n;
  const ValueId x = n.input("x", {2, 4, 5, 5});
  ValueId y = n.op("Conv", {x, n.weight({4, 4, 3, 3}, 1)}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  y = n.op("Add", {n.weight({4, 1, 1}, 2), y});
  y = n.op("Gelu", {y}, {{"approximate", std::string("tanh")}});
  y = n.op("Mul", {y, n.weight({1, 4, 1, 1}, 3)});
  y = n.op("Add", {x, y});
  n.output(n.op("Relu", {y}));
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues), 1);
  EXPECT_EQ(n.graph.node_count(), 1);
  EXPECT_EQ(steps_of(n.graph, "sparkpilot::Conv"), (Steps{"gelu_tanh", "mul:3", "add:4", "relu"}));
}

TEST(FuseEpilogues, ResidualMadeLaterIsAnOperand) {
  Net n;
  const ValueId x = n.input("x", {1, 4, 5, 5});
  const ValueId first = n.op("Conv", {x, n.weight({4, 4, 1, 1}, 1)});
  const ValueId second = n.op("Conv", {n.op("Relu", {x}), n.weight({4, 4, 1, 1}, 2)});
  n.output(n.op("Relu", {n.op("Add", {first, second})}));
  run_and_compare(n.graph, fuse_epilogues);
  EXPECT_EQ(count(n.graph, "sparkpilot::Conv"), 2);
  EXPECT_EQ(count(n.graph, "Add"), 0);
}

TEST(FuseEpilogues, GemmFoldsScalesAndBroadcastBias) {
  Net n;
  const ValueId x = n.input("x", {3, 8});
  const Attributes attrs{{"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}};
  n.output(n.op("Sigmoid", {n.op("Gemm", {x, n.weight({5, 8}, 1), n.weight({1}, 2)}, attrs)}), "a");
  n.output(n.op("Gemm", {x, n.weight({8, 5}, 3), n.input("c", {3, 5})}), "b");
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues), 2);
  EXPECT_EQ(n.graph.node_count(), 2);
}

TEST(FuseEpilogues, MatMulOfAnyRankAndAReshapeBeforeTheResidual) {
  Net n;
  const ValueId x = n.input("x", {2, 3, 8});
  ValueId y = n.op("Gemm", {n.reshape(x, {6, 8}), n.weight({8, 8}, 1), n.weight({8}, 2)});
  y = n.op("Add", {n.reshape(y, {2, 3, 8}), x});
  y = n.op("Add", {n.op("MatMul", {y, n.weight({8, 6}, 3)}), n.weight({6}, 4)});
  n.output(n.op("Clip", {y, ValueId{}, n.scalar(0.5)}));
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues), 2);
  EXPECT_EQ(n.graph.node_count(), 2);
}

TEST(FuseEpilogues, ActivationsWithParameters) {
  Net n;
  const ValueId x = n.input("x", {2, 3});
  const auto layer = [&](uint64_t seed) { return n.op("MatMul", {x, n.weight({3, 4}, seed)}); };
  n.output(n.op("LeakyRelu", {layer(1)}, {{"alpha", 0.3f}}), "leaky");
  n.output(n.op("Elu", {layer(2)}, {{"alpha", 0.7f}}), "elu");
  n.output(n.op("Max", {n.scalar(-0.4), layer(3)}), "max");
  n.output(n.op("Min", {layer(4), n.scalar(0.4)}), "min");
  n.output(n.op("Swish", {layer(5)}), "swish");
  n.output(n.op("HardSwish", {layer(6)}), "hard_swish");
  n.output(n.op("PRelu", {layer(7), n.scalar(0.1)}), "prelu");
  n.output(n.op("Tanh", {n.op("Sub", {layer(8), n.weight({4}, 9)})}), "tanh");
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues), 8);
  EXPECT_EQ(n.graph.node_count(), 8);
}

TEST(FuseEpilogues, GateByChannelComputedAtRunTime) {
  Net n;
  const ValueId x = n.input("x", {1, 4, 5, 5}), gate = n.op("Sigmoid", {n.input("gate", {1, 4, 1, 1})});
  n.output(n.op("Mul", {n.op("Conv", {x, n.weight({4, 4, 1, 1}, 1)}), gate}));
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues), 1);
  EXPECT_EQ(count(n.graph, "Mul"), 0);
}

TEST(FuseEpilogues, LeavesValuesThatAreUsedElsewhereAndOtherBroadcasts) {
  Net n;
  const ValueId x = n.input("x", {1, 4, 5, 5});
  const ValueId seen = n.op("Conv", {x, n.weight({4, 4, 1, 1}, 1)});
  n.output(seen, "seen");
  n.output(n.op("Relu", {seen}), "relu");
  const ValueId wide = n.op("Conv", {x, n.weight({4, 4, 5, 5}, 2)});
  n.output(n.op("Add", {wide, n.weight({4, 3, 3}, 3)}), "widened");
  const ValueId columns = n.op("Conv", {x, n.weight({4, 4, 1, 1}, 4)});
  n.output(n.op("Mul", {columns, n.weight({5}, 5)}), "by_column");
  n.output(n.op("Div", {n.scalar(1), n.op("Conv", {x, n.weight({4, 4, 1, 1}, 6)})}), "inverse");
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues, 1e-5), 4);
  for (const NodeId id : n.graph.order()) EXPECT_FALSE(n.graph.node(id).attrs.has("epilogue"));
}

TEST(FuseEpilogues, LeavesProductsOfTwoRunningValues) {
  Net n;
  const ValueId x = n.input("x", {3, 4});
  n.output(n.op("Relu", {n.op("MatMul", {x, n.input("z", {4, 5})})}), "matmul");
  n.output(n.op("Gemm", {x, n.weight({3, 5}, 1)}, {{"transA", int64_t{1}}}), "gemm");
  EXPECT_EQ(run_and_compare(n.graph, fuse_epilogues), 0);
}

}  // namespace
}  // namespace sparkpilot

#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace fuse_heads_test {

using testing::count;
using testing::Net;
using testing::run_and_compare;

using Texts = std::vector<std::string>;

// A product of `x`, [rows, k], by weights [k, n] with a bias.
ValueId head(Net& net, ValueId x, int64_t n, Texts epilogue = {}, std::vector<ValueId> operands = {}) {
  const int64_t k = net.b.shape(x)[1];
  std::vector<ValueId> inputs{x, net.weight({k, n}, 3), net.weight({n}, 5)};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  Attributes attrs;
  if (!epilogue.empty()) attrs.set("epilogue", epilogue);
  return net.op("sparkpilot::Gemm", inputs, attrs);
}

int groups(const Net& net) { return count(net.graph, "sparkpilot::GemmGroup"); }
int products(const Net& net) { return count(net.graph, "sparkpilot::Gemm"); }

TEST(FuseHeads, TakesHeadsOfOneVectorAndOfOthers) {
  Net net;
  const ValueId x = net.input("x", {1, 40}), z = net.input("z", {1, 24});
  net.output(head(net, x, 7, {"relu"}));
  net.output(head(net, x, 1));
  net.output(head(net, z, 12, {"add:3", "silu"}, {net.input("r", {1, 12})}));
  EXPECT_EQ(run_and_compare(net.graph, fuse_heads), 1);
  EXPECT_EQ(groups(net), 1);
  EXPECT_EQ(products(net), 0);
}

// Two chains beside one another: a group for each layer, however many other nodes lie between.
TEST(FuseHeads, LayersThatNeedOneAnotherStayApart) {
  Net net;
  const ValueId x = net.input("x", {1, 32});
  const ValueId a = head(net, x, 16), b = net.op("Tanh", {head(net, x, 20)});
  net.output(head(net, a, 5));
  net.output(head(net, net.op("Exp", {b}), 6));
  EXPECT_EQ(run_and_compare(net.graph, fuse_heads), 2);
  EXPECT_EQ(groups(net), 2);
  EXPECT_EQ(products(net), 0);
}

TEST(FuseHeads, SixteenAtMostAndNeverOneAlone) {
  Net net;
  const ValueId x = net.input("x", {1, 8});
  for (int i = 0; i < 17; ++i) net.output(head(net, x, 2 + i));
  EXPECT_EQ(run_and_compare(net.graph, fuse_heads), 1);
  EXPECT_EQ(groups(net), 1);
  EXPECT_EQ(products(net), 1);
}

// Several rows, weights that a run computes, more steps than the kernel takes.
TEST(FuseHeads, LeavesOthers) {
  Net net;
  const ValueId rows = net.input("rows", {3, 8}), x = net.input("x", {1, 8}), w = net.input("w", {8, 4});
  net.output(head(net, rows, 4));
  net.output(head(net, rows, 5));
  net.output(net.op("sparkpilot::Gemm", {x, w}));
  net.output(head(net, x, 4, {"relu", "tanh", "sigmoid", "relu"}));
  net.output(head(net, x, 6));
  EXPECT_EQ(run_and_compare(net.graph, fuse_heads), 0);
}

}  // namespace fuse_heads_test
}  // namespace sparkpilot

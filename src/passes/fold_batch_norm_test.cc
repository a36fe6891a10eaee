#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::random_tensor;
using testing::run_and_compare;

ValueId batch_norm(Net& n, ValueId x, int64_t channels, uint64_t seed) {
  Tensor variance = random_tensor(Shape{channels}, seed + 3);
  for (float& v : variance.data<float>()) v = v * v + 0.1f;
  return n.op("BatchNormalization",
              {x, n.weight({channels}, seed), n.weight({channels}, seed + 1), n.weight({channels}, seed + 2),
               n.b.constant(variance)},
              {{"epsilon", 1e-3f}});
}

int expand_and_fold(Graph& graph) {
  expand_ops(graph);
  fold_constants(graph);
  return fold_batch_norm(graph);
}

Attributes conv_attrs(int64_t group, int64_t pad) {
  return {{"group", group}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}};
}

TEST(FoldBatchNorm, BehindConvolutionsOfAllKinds) {
  Net n;
  const ValueId x = n.input("x", {2, 6, 5, 5});
  const ValueId plain = n.op("Conv", {x, n.weight({4, 6, 3, 3}, 1), n.weight({4}, 2)}, conv_attrs(1, 1));
  n.output(batch_norm(n, plain, 4, 10), "plain");
  const ValueId grouped = n.op("Conv", {x, n.weight({4, 3, 3, 3}, 3)}, conv_attrs(2, 0));
  n.output(batch_norm(n, grouped, 4, 20), "grouped");
  const ValueId up = n.op("ConvTranspose", {x, n.weight({6, 2, 2, 2}, 4)}, {{"group", int64_t{3}}});
  n.output(batch_norm(n, up, 6, 30), "transposed");
  EXPECT_EQ(run_and_compare(n.graph, expand_and_fold), 6);  // a factor and a shift each
  EXPECT_EQ(n.graph.node_count(), 3);
}

TEST(FoldBatchNorm, BeforeAConvolutionOnlyWithoutPadding) {
  for (const int64_t pad : {0, 1}) {
    Net n;
    const ValueId x = n.input("x", {2, 6, 5, 5});
    const ValueId y = batch_norm(n, x, 6, 10);
    n.output(n.op("Conv", {y, n.weight({4, 3, 3, 3}, 3), n.weight({4}, 2)}, conv_attrs(2, pad)));
    EXPECT_EQ(run_and_compare(n.graph, expand_and_fold), pad == 0 ? 2 : 0);
  }
}

TEST(FoldBatchNorm, ScaleWithoutShiftGoesIntoPaddedConvolutions) {
  Net n;
  const ValueId x = n.op("Mul", {n.input("x", {1, 3, 5, 5}), n.weight({3, 1, 1}, 9)});
  n.output(n.op("Conv", {x, n.weight({4, 3, 3, 3}, 3)}, conv_attrs(1, 1)));
  EXPECT_EQ(run_and_compare(n.graph, fold_batch_norm), 1);
  EXPECT_EQ(n.graph.node_count(), 1);
}

TEST(FoldBatchNorm, MatrixProducts) {
  Net n;
  const ValueId x = n.input("x", {3, 8});
  const Attributes attrs{{"transB", int64_t{1}}, {"alpha", 0.5f}, {"beta", 2.0f}};
  const ValueId g = n.op("Gemm", {x, n.weight({5, 8}, 1), n.weight({1, 5}, 2)}, attrs);
  n.output(n.op("Add", {n.op("Mul", {g, n.weight({5}, 3)}), n.weight({5}, 4)}), "gemm");
  const ValueId shifted = n.op("Sub", {n.op("Div", {x, n.weight({8}, 5)}), n.weight({8}, 6)});
  n.output(n.op("Gemm", {shifted, n.weight({5, 8}, 7)}, attrs), "gemm_in");
  const ValueId m = n.op("MatMul", {n.input("z", {2, 3, 8}), n.weight({8, 4}, 8)});
  n.output(n.op("Mul", {n.scalar(0.25), m}), "matmul");
  run_and_compare(n.graph, fold_batch_norm, 2e-6);
  EXPECT_EQ(n.graph.node_count(), 3);
}

TEST(FoldBatchNorm, LeavesSharedWeightsUsedResultsAndOtherShapes) {
  Net n;
  const ValueId x = n.input("x", {1, 4, 5, 5});
  const ValueId w = n.weight({4, 4, 1, 1}, 1);
  const ValueId a = n.op("Conv", {x, w}), b = n.op("Conv", {n.op("Relu", {x}), w});
  n.output(batch_norm(n, a, 4, 10), "a");
  n.output(b, "b");
  const ValueId c = n.op("Conv", {x, n.weight({4, 4, 1, 1}, 2)});
  n.output(n.op("Mul", {c, n.weight({4, 1, 1}, 3)}), "c");
  n.output(c, "c_seen");
  const ValueId d = n.op("Conv", {x, n.weight({4, 4, 1, 1}, 4)});
  n.output(n.op("Mul", {d, n.weight({5}, 5)}), "by_column");
  EXPECT_EQ(run_and_compare(n.graph, expand_and_fold), 0);
}

}  // namespace
}  // namespace sparkpilot

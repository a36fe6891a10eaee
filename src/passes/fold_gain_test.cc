#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace fold_gain_test {

using testing::count;
using testing::Net;
using testing::run_and_compare;

constexpr int64_t kWidth = 16;

ValueId norm(Net& n, ValueId x, uint64_t seed) {
  return n.op("LayerNormalization", {x, n.weight({kWidth}, seed), n.weight({kWidth}, seed + 1)});
}

// Whether the graph's only normalisation multiplies by one and adds nothing.
bool is_bare(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->name != "LayerNormalization" && node.op->name != "RMSNormalization") continue;
    const std::span<const float> scale = graph.constant(node.inputs[1])->data<float>();
    return node.inputs.size() == 2 && std::all_of(scale.begin(), scale.end(), [](float v) { return v == 1; });
  }
  return false;
}

TEST(FoldGain, IntoAllProductsThatReadTheNorm) {
  Net n;
  const ValueId y = norm(n, n.input("x", {2, 5, kWidth}), 1);
  n.output(n.op("MatMul", {y, n.weight({kWidth, 8}, 3)}), "plain");
  n.output(n.op("Add", {n.op("MatMul", {y, n.weight({kWidth, 8}, 4)}), n.weight({8}, 5)}), "biased");
  EXPECT_EQ(run_and_compare(n.graph, fold_gain), 1);
  EXPECT_TRUE(is_bare(n.graph));
  EXPECT_EQ(count(n.graph, "Add"), 2);  // the existing bias has taken the shift
}

TEST(FoldGain, IntoGemmsOfBothLayouts) {
  for (const int64_t transposed : {0, 1}) {
    Net n;
    const ValueId x = n.input("x", {5, kWidth});
    const ValueId y = n.op("RMSNormalization", {x, n.weight({kWidth}, 1)});
    const Shape weights = transposed ? Shape{8, kWidth} : Shape{kWidth, 8};
    n.output(n.op("Gemm", {y, n.weight(weights, 3), n.weight({8}, 4)}, {{"transB", transposed}, {"alpha", 0.5f}}));
    EXPECT_EQ(run_and_compare(n.graph, fold_gain), 1);
    EXPECT_TRUE(is_bare(n.graph));
  }
}

TEST(FoldGain, NotWhereSomethingElseReadsTheNorm) {
  Net n;
  const ValueId y = norm(n, n.input("x", {2, 5, kWidth}), 1);
  n.output(n.op("Relu", {y}), "itself");
  n.output(n.op("MatMul", {y, n.weight({kWidth, 8}, 3)}), "product");
  EXPECT_EQ(run_and_compare(n.graph, fold_gain), 0);
}

TEST(FoldGain, NotFromTheLeftOfAProduct) {
  Net n;
  const ValueId y = norm(n, n.input("x", {kWidth, kWidth}), 1);
  n.output(n.op("MatMul", {n.weight({8, kWidth}, 3), y}));
  EXPECT_EQ(run_and_compare(n.graph, fold_gain), 0);
}

// Queries, keys and values as columns of one product; `bias`: with a bias added.
void attend(Net& n, bool bias, bool gemm) {
  ValueId x = n.input("x", gemm ? Shape{10, kWidth} : Shape{2, 5, kWidth}), y;
  if (gemm) {
    y = n.op("Gemm", {x, n.weight({kWidth, 3 * kWidth}, 1), n.weight({3 * kWidth}, 2)});
    y = n.op("Reshape", {y, n.b.ints({2, 5, 3 * kWidth})});
  } else {
    y = n.op("MatMul", {x, n.weight({kWidth, 3 * kWidth}, 1)});
    if (bias) y = n.op("Add", {y, n.weight({3 * kWidth}, 2)});
  }
  const auto parts = n.b.add_many("Split", {y, n.b.ints({kWidth, kWidth, kWidth})}, {{"axis", int64_t{2}}}, 3);
  n.output(n.op("Attention", {parts[0], parts[1], parts[2]},
                {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}, {"is_causal", int64_t{1}}}));
}

double scale_of(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    if (graph.node(id).op->name == "Attention") return static_cast<double>(graph.node(id).attrs.real("scale", 0));
  }
  return 0;
}

TEST(FoldGain, AttentionsScaleIntoTheColumnsOfItsQueries) {
  for (const bool bias : {false, true}) {
    Net n;
    attend(n, bias, false);
    EXPECT_EQ(run_and_compare(n.graph, fold_gain), 1);
    EXPECT_EQ(scale_of(n.graph), 1);
  }
}

TEST(FoldGain, NotBehindAReshape) {
  Net n;
  attend(n, true, true);
  EXPECT_EQ(run_and_compare(n.graph, fold_gain), 0);
}

TEST(FoldGain, NotWhereQueriesAreReadTwice) {
  Net n;
  const ValueId q = n.op("MatMul", {n.input("x", {2, 5, kWidth}), n.weight({kWidth, kWidth}, 1)});
  n.output(n.op("Attention", {q, q, q}, {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}}));
  EXPECT_EQ(run_and_compare(n.graph, fold_gain), 0);
}

}  // namespace fold_gain_test
}  // namespace sparkpilot

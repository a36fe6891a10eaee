#include <gtest/gtest.h>

#include "ir/infer.h"
#include "ir/interpret.h"
#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

// reshape(x, [dim 0 of x, -1]) then the matrix form of Softmax, whose shape is only known once the operand is folded.
TEST(Simplify, ExpandsBehindFoldedShapes) {
  Graph g;
  Builder b(g, "t");
  const ValueId x = g.add_input("x", DType::f32, Shape{2, 3, 4});
  const ValueId dim = b.add("Slice", {b.add("Shape", {x}), b.ints({0}), b.ints({1})});
  const ValueId shape = b.add("Concat", {dim, b.ints({-1})}, {{"axis", int64_t{0}}});
  const NodeId reshape = g.add_node(*find_op("", "Reshape", 13), {x, shape}, {}, 1);
  const NodeId softmax = g.add_node(*find_op("", "Softmax", 11), {g.node(reshape).outputs[0]}, {}, 1);
  g.add_output(g.node(softmax).outputs[0], "y");
  const Tensor input = Tensor::zeros(DType::f32, Shape{2, 3, 4});
  const auto expected = interpret(g, {&input, 1});
  run_passes(g);
  ASSERT_TRUE(g.value(g.outputs()[0].value).shape.has_value());
  for (const NodeId id : g.order()) {
    EXPECT_FALSE(g.node(id).op->cpu.empty()) << g.label(id);
    EXPECT_NE(g.node(id).op->name, "Shape");
  }
  const auto got = interpret(g, {&input, 1});
  EXPECT_EQ(got[0].shape(), expected[0].shape());
  EXPECT_FLOAT_EQ(got[0].data<float>()[0], 1 / 12.f);
}

// x -> softmax(x) + 2, or x itself; with `inner`, an If with that branch replaces the sum.
std::shared_ptr<const Graph> branch(bool identity, std::shared_ptr<const Graph> inner = nullptr) {
  testing::Net net;
  const ValueId x = net.input("x", Shape{2, 3});
  if (identity) {
    net.output(x);
  } else if (inner) {
    const ValueId yes = net.b.constant(Tensor::scalar(true));
    net.output(net.op("If", {yes, x}, {{"then_branch", inner}, {"else_branch", inner}, {"captures", int64_t{1}}}));
  } else {
    net.output(net.op("Add", {net.op("Softmax", {x}), net.scalar(2)}));
  }
  return std::make_shared<const Graph>(std::move(net.graph));
}

// The condition results from shape arithmetic, and the branch contains another If.
TEST(Simplify, WritesOutTheBranchThatAConstantChooses) {
  for (const int64_t rank : {2, 3}) {
    testing::Net net;
    const ValueId x = net.input("x", Shape{2, 3});
    const ValueId rank_of_x = net.op("Size", {net.op("Shape", {x})});
    const ValueId condition = net.op("Equal", {rank_of_x, net.b.constant(Tensor::scalar(rank))});
    const ValueId y = net.op(
        "If", {condition, x},
        {{"then_branch", branch(false, branch(false))}, {"else_branch", branch(true)}, {"captures", int64_t{1}}});
    net.output(net.op("Mul", {y, net.scalar(3)}));
    EXPECT_GT(testing::run_and_compare(net.graph, fold_constants, 0), 0);
    EXPECT_EQ(testing::count(net.graph, "If"), 0);
    EXPECT_EQ(testing::count(net.graph, "Softmax"), rank == 2);
    EXPECT_TRUE(net.graph.value(net.graph.outputs()[0].value).shape.has_value());
  }
}

TEST(Simplify, KeepsAnIfWhoseConditionIsAnInput) {
  testing::Net net;
  const ValueId x = net.input("x", Shape{2, 3}), condition = net.input("c", Shape{}, DType::boolean);
  net.output(net.op("If", {condition, x},
                    {{"then_branch", branch(false)}, {"else_branch", branch(true)}, {"captures", int64_t{1}}}));
  EXPECT_EQ(fold_constants(net.graph), 0);
  EXPECT_EQ(testing::count(net.graph, "If"), 1);
}

// An op that counts how often its type is inferred, which every pass over the whole graph does.
int64_t inferred = 0;
const OpDef& counting_op() {
  static const OpDef op{.name = "Counting",
                        .domain = "test",
                        .inputs = {1, 1},
                        .outputs = {1, 1},
                        .infer =
                            [](InferContext& c) {
                              ++inferred;
                              c.output(0, c.dtype(0), c.shape(0));
                            },
                        .expand = nullptr};
  return op;
}

// Blocks of shape arithmetic, each followed by an old op version whose result's shape the next block reads. Returns how
// often folding looks at each node.
int64_t looks_at_a_node(int blocks) {
  testing::Net net;
  ValueId x = net.input("x", Shape{1, 2, 3, 1});
  const ValueId two = net.b.constant(Tensor::of<float>(Shape{2}, {1, 2}));
  for (int i = 0; i < blocks; ++i) {
    const NodeId counting = net.graph.add_node(counting_op(), {x}, {}, 1);
    const ValueId y = net.graph.node(counting).outputs[0];
    const ValueId size = net.op("Gather", {net.op("Shape", {y}), net.b.ints({0, 1, 2})});
    const ValueId shaped = net.op("Reshape", {y, net.op("Concat", {size, net.b.ints({-1})}, {{"axis", int64_t{0}}})});
    x = net.op("BatchNormalization", {shaped, two, two, two, two});
  }
  net.output(x);
  inferred = 0;
  EXPECT_GT(fold_constants(net.graph), 0);
  EXPECT_EQ(testing::count(net.graph, "BatchNormalization") + testing::count(net.graph, "Shape"), 0);
  const int64_t looks = inferred;
  EXPECT_EQ(fold_constants(net.graph), 0);  // one pass was enough
  EXPECT_EQ(looks % blocks, 0);
  return looks / blocks;
}

TEST(Simplify, FoldingLooksAtANodeAsOftenInALongGraph) { EXPECT_EQ(looks_at_a_node(100), looks_at_a_node(3)); }

}  // namespace
}  // namespace sparkpilot

#include <gtest/gtest.h>

#include "ir/infer.h"
#include "ir/interpret.h"
#include "passes/pass.h"

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

}  // namespace
}  // namespace sparkpilot

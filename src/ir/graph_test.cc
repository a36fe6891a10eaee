#include "ir/graph.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/infer.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

const OpDef& test_op() {
  static const OpDef op{
      .name = "Pass", .doc = "test", .inputs = {1, 2}, .outputs = {1, 1}, .infer = [](InferContext& c) {
        c.output(0, c.dtype(0), c.shape(0));
      }};
  return op;
}

TEST(Graph, OrderPutsProducersFirstAndFindsCycles) {
  Graph g;
  const ValueId x = g.add_input("x", DType::f32, Shape{2});
  const NodeId a = g.add_node(test_op(), {x}, {}, 1), b = g.add_node(test_op(), {g.node(a).outputs[0]}, {}, 1);
  g.add_output(g.node(b).outputs[0], "y");
  EXPECT_EQ(g.order(), (std::vector<NodeId>{a, b}));
  g.node(a).inputs.push_back(g.node(b).outputs[0]);
  EXPECT_THROW(g.order(), Error);
}

TEST(Graph, CompactKeepsWhatOutputsAndStatesNeed) {  // states whether or not anything reads them
  Graph g;
  const ValueId x = g.add_input("x", DType::f32, Shape{2});
  const ValueId s = g.add_state(Tensor::zeros(DType::f32, Shape{2}), "s");
  const ValueId idle = g.add_state(Tensor::zeros(DType::f32, Shape{2}), "idle");
  const NodeId used = g.add_node(test_op(), {x, s}, {}, 1), next = g.add_node(test_op(), {s}, {}, 1);
  g.add_node(test_op(), {x}, {}, 1, "dead");
  g.set_next(s, g.node(next).outputs[0]);
  g.set_next(idle, x);
  g.add_output(g.node(used).outputs[0], "y");
  g.compact();
  EXPECT_EQ(g.node_count(), 2);
  ASSERT_EQ(g.states().size(), 2u);
  EXPECT_EQ(g.value(g.states()[0].value).name, "s");
  EXPECT_EQ(g.value(g.states()[1].value).name, "idle");
  infer(g);
  EXPECT_EQ(g.value(g.outputs()[0].value).shape, Shape{2});
}

TEST(Graph, BindRefusesShapesThatDoNotFit) {
  Graph g;
  const ValueId x = g.add_input("x", DType::f32, std::vector<Dim>{{-1, "batch"}, {3, ""}});
  bind_input(g, x, Shape{5, 3});
  EXPECT_THROW(bind_input(g, x, Shape{5, 4}), Error);
  EXPECT_THROW(bind_input(g, x, Shape{5}), Error);
}

TEST(Shape, RefusesAbsurdSizes) {
  EXPECT_THROW(Shape({-1}), Error);
  EXPECT_THROW(Shape({int64_t{1} << 20, int64_t{1} << 20}), Error);
  EXPECT_THROW(Shape({0, INT64_MAX, INT64_MAX}), Error);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_EQ(Shape({2, 0, 3}).elements(), 0);
}

}  // namespace
}  // namespace sparkpilot

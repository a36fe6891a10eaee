#include "ir/dimensions.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sparkpilot {
namespace {

// x [batch, ?], y [batch, 3, time], any (of any rank); "out" is declared as [batch, time].
Graph open_graph() {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, std::vector<Dim>{{-1, "batch"}, {-1, ""}});
  graph.add_input("y", DType::f32, std::vector<Dim>{{-1, "batch"}, {3, ""}, {-1, "time"}});
  const ValueId any = graph.add_input("any", DType::f32, std::vector<Dim>{});
  graph.value(any).declared.reset();
  graph.value(any).shape.reset();
  const ValueId out = graph.add_constant(Tensor::zeros(DType::f32, Shape{1}));
  graph.value(out).declared = std::vector<Dim>{{-1, "batch"}, {-1, "time"}};
  graph.add_output(out, "out");
  graph.add_output(x, "same");
  return graph;
}

std::string text(const Graph& graph, ValueId id) { return declared_text(*graph.value(id).declared); }

std::string refusal(const std::map<std::string, int64_t>& dims, const std::map<std::string, Shape>& shapes) {
  Graph graph = open_graph();
  try {
    fix_dimensions(graph, dims, shapes);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(FixDimensions, ANameHasOneSizeEverywhere) {
  Graph graph = open_graph();
  fix_dimensions(graph, {{"batch", 4}}, {});
  EXPECT_EQ(text(graph, graph.inputs()[0]), "[4, ?]");
  EXPECT_EQ(text(graph, graph.inputs()[1]), "[4, 3, time]");
  EXPECT_EQ(text(graph, graph.outputs()[0].value), "[4, time]");
  EXPECT_FALSE(graph.value(graph.inputs()[0]).shape);
  fix_dimensions(graph, {{"time", 0}}, {});
  EXPECT_EQ(graph.value(graph.inputs()[1]).shape, (Shape{4, 3, 0}));
}

TEST(FixDimensions, AShapeGivesItsNamesTheirSize) {
  Graph graph = open_graph();
  fix_dimensions(graph, {}, {{"y", Shape{2, 3, 7}}, {"any", Shape{5}}});
  EXPECT_EQ(text(graph, graph.inputs()[0]), "[2, ?]");
  EXPECT_EQ(text(graph, graph.outputs()[0].value), "[2, 7]");
  EXPECT_EQ(graph.value(graph.inputs()[1]).shape, (Shape{2, 3, 7}));
  EXPECT_EQ(graph.value(graph.inputs()[2]).shape, Shape{5});
  fix_dimensions(graph, {}, {{"x", Shape{2, 9}}});
  EXPECT_EQ(graph.value(graph.inputs()[0]).shape, (Shape{2, 9}));
  fix_dimensions(graph, {}, {{"x", Shape{2, 9}}});  // the same shape again
}

TEST(FixDimensions, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal({{"depth", 1}}, {}), "no input has an open dimension named \"depth\"; there are: batch, time");
  EXPECT_EQ(refusal({{"", 1}}, {}), "no input has an open dimension named \"\"; there are: batch, time");
  EXPECT_EQ(refusal({{"batch", -1}}, {}), "dimension \"batch\" cannot be -1");
  EXPECT_EQ(refusal({}, {{"z", Shape{1}}}), "the model has no input \"z\"; it has: x, y, any");
  EXPECT_EQ(refusal({}, {{"x", Shape{1}}}), "input \"x\" is [batch, ?], the shape given for it [1]");
  EXPECT_EQ(refusal({}, {{"y", Shape{1, 4, 1}}}), "input \"y\" is [batch, 3, time], the shape given for it [1,4,1]");
  EXPECT_EQ(refusal({{"batch", 2}}, {{"x", Shape{1, 4}}}), "input \"x\" is [2, ?], the shape given for it [1,4]");
  EXPECT_EQ(refusal({}, {{"x", Shape{1, 4}}, {"y", Shape{2, 3, 1}}}),
            "dimension \"batch\" is 1 in the shape given for input \"x\" and 2 in that for \"y\"");
}

}  // namespace
}  // namespace sparkpilot

#include "ir/census.h"

#include <gtest/gtest.h>

#include "ir/dot.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

TEST(Census, CountsNodesWeightsAndWork) {
  Graph graph;
  Builder b(graph, "net");
  const ValueId x = graph.add_input("x", DType::f32, Shape{1, 3, 8, 8});
  const ValueId weight = b.constant(Tensor::zeros(DType::f32, Shape{5, 3, 3, 3}));
  const ValueId y = b.add("Conv", {x, weight}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  graph.add_output(b.add("Reshape", {y, b.ints({1, -1})}), "y");
  const Census census = take_census(graph);
  EXPECT_EQ(census.nodes, 2);
  EXPECT_EQ(census.ops.at("Conv"), 1);
  EXPECT_EQ(census.parameters, 5 * 27);
  EXPECT_EQ(census.constant_bytes, 5 * 27 * 4 + 2 * 8);
  EXPECT_EQ(census.macs, 8 * 8 * 5 * 27);
  EXPECT_EQ(census.unknown, 0);
}

TEST(Census, LeavesOutWhatHasNoShape) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, std::vector<Dim>{{-1, "n"}});
  graph.add_output(graph.node(graph.add_node(*find_op("", "Identity", 13), {x}, {}, 1)).outputs[0], "y");
  EXPECT_EQ(take_census(graph).unknown, 1);
}

TEST(Dot, DrawsEveryNodeAndEscapesNames) {
  Graph graph;
  graph.name = "a \"quoted\" graph";
  Builder b(graph, "net");
  const ValueId x = graph.add_input("x", DType::f32, Shape{2});
  graph.add_output(b.add("Softmax", {b.add("Identity", {x})}), "y\n");
  const std::string dot = to_dot(graph);
  EXPECT_NE(dot.find("digraph \"a \\\"quoted\\\" graph\""), std::string::npos);
  EXPECT_NE(dot.find("Softmax\\nnet/Softmax\\nf32[2]"), std::string::npos);
  EXPECT_NE(dot.find("output y \""), std::string::npos);
  EXPECT_EQ(dot.substr(dot.size() - 2), "}\n");
}

}  // namespace
}  // namespace sparkpilot

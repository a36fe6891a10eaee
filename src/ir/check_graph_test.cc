#include "ir/check_graph.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

std::string problem(const Graph& graph) {
  try {
    check_graph(graph);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
}

// y = x + h; h = y.
struct Sum {
  Graph graph;
  ValueId x = graph.add_input("x", DType::f32, Shape{2});
  ValueId h = graph.add_state(Tensor::zeros(DType::f32, Shape{2}), "h");
  ValueId y = Builder(graph, "").add("Add", {x, h});
};

TEST(CheckGraph, AWholeGraphPasses) {
  Sum net;
  net.graph.set_next(net.h, net.y);
  net.graph.add_output(net.y, "y");
  EXPECT_EQ(problem(net.graph), "");
}

TEST(CheckGraph, WhatIsMissingIsNamed) {
  Sum net;
  EXPECT_EQ(problem(net.graph), "state \"h\" has no value for the next run");
  net.graph.set_next(net.h, net.y);
  EXPECT_EQ(problem(net.graph), "") << "an update of states needs no output";
  EXPECT_EQ(problem(Graph()), "the graph has neither outputs nor states");
  net.graph.add_output(ValueId{}, "z");
  EXPECT_EQ(problem(net.graph), "output \"z\" has no value");
  net.graph.replace_outputs({{ValueId{99}, "z"}});
  EXPECT_EQ(problem(net.graph), "output \"z\" has no value");
  net.graph.replace_outputs({{net.y, "z"}, {net.x, ""}});
  EXPECT_EQ(problem(net.graph), "output 1 has no name");
  net.graph.replace_outputs({{net.y, "z"}, {net.x, "z"}});
  EXPECT_EQ(problem(net.graph), "two outputs are named \"z\"");
}

TEST(CheckGraph, InputsAndStatesAreToldApart) {
  Sum net;
  net.graph.set_next(net.h, net.y);
  net.graph.add_output(net.y, "y");
  net.graph.add_input("x", DType::f32, Shape{2});
  EXPECT_EQ(problem(net.graph), "two inputs are named \"x\"");
  net.graph.value(net.graph.inputs()[1]).name = "w";
  net.graph.value(net.graph.inputs()[1]).dtype = DType::none;
  EXPECT_EQ(problem(net.graph), "input \"w\" has no element type");
  net.graph.value(net.graph.inputs()[1]).dtype = DType::f32;
  const ValueId other = net.graph.add_state(Tensor::zeros(DType::f32, Shape{2}), "other");
  net.graph.set_next(other, net.y);
  net.graph.value(other).name = "h";
  EXPECT_EQ(problem(net.graph), "two states are named \"h\"");
}

TEST(CheckGraph, BodiesAreLookedInto) {
  Graph graph;
  auto broken = std::make_shared<Graph>();
  broken->add_output(ValueId{}, "inner");
  const OpDef* op = find_op("", "If", 26);
  ASSERT_NE(op, nullptr);
  const ValueId condition = graph.add_constant(Tensor::scalar(true));
  const NodeId node =
      graph.add_node(*op, {condition}, {{"then_branch", std::shared_ptr<const Graph>(broken)}}, 1, "if");
  graph.add_output(graph.node(node).outputs[0], "y");
  EXPECT_EQ(problem(graph), "output \"inner\" has no value");
  graph.node(node).attrs.set("then_branch", std::shared_ptr<const Graph>());
  EXPECT_EQ(problem(graph), "attribute then_branch holds no graph (node \"if\")");
}

}  // namespace
}  // namespace sparkpilot

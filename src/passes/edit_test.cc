#include "passes/edit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

// The readers of a value, found in the graph itself; sorted.
std::vector<NodeId> readers_in(const Graph& graph, ValueId value) {
  std::vector<NodeId> out;
  for (int i = 0; i < graph.node_count(); ++i) {
    for (const ValueId input : graph.node(NodeId{i}).inputs) {
      if (input == value) out.push_back(NodeId{i});
    }
  }
  return out;
}

void expect_readers(Edit& edit) {
  for (int i = 0; i < edit.graph().value_count(); ++i) {
    std::vector<NodeId> known = edit.readers(ValueId{i});
    std::sort(known.begin(), known.end());
    EXPECT_EQ(known, readers_in(edit.graph(), ValueId{i})) << "value " << i;
  }
}

// Values with few and with many readers, some of which read twice, while inputs change and nodes are erased.
TEST(Edit, KnowsTheReadersOfEveryValue) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    testing::Net net;
    std::vector<ValueId> values{net.input("x", Shape{2}), net.input("y", Shape{2}), net.scalar(2)};
    const auto any = [&] { return values[static_cast<size_t>(random.integer(0, std::ssize(values) - 1))]; };
    std::vector<NodeId> nodes;
    for (int i = 0; i < 300; ++i) {
      const ValueId first = random.integer(0, 2) ? values[0] : any();
      const ValueId sum = net.op("Add", {first, random.integer(0, 3) ? first : any()});
      nodes.push_back(net.graph.value(sum).producer);
      if (random.integer(0, 9) == 0) values.push_back(sum);
      net.output(sum, std::to_string(i));
    }
    Edit edit(net.graph);
    for (int round = 0; round < 200; ++round) {
      const NodeId id = nodes[static_cast<size_t>(random.integer(0, std::ssize(nodes) - 1))];
      if (net.graph.erased(id)) continue;
      const ValueId y = net.graph.node(id).outputs[0];
      if (random.integer(0, 1)) {
        edit.set_input(id, static_cast<size_t>(random.integer(0, 1)),
                       values[static_cast<size_t>(random.integer(0, 2))]);
      } else {
        edit.replace(y, edit.make(id, "Relu", {values[static_cast<size_t>(random.integer(0, 1))]}));
      }
    }
    expect_readers(edit);
  }
}

TEST(Edit, OfFewReadersTheFirstStayFirst) {
  testing::Net net;
  const ValueId x = net.input("x", Shape{2}), y = net.input("y", Shape{2});
  std::vector<NodeId> nodes;
  for (int i = 0; i < 5; ++i) {
    net.output(net.op("Relu", {x}), std::to_string(i));
    nodes.push_back(NodeId{net.graph.node_count() - 1});
  }
  Edit edit(net.graph);
  edit.set_input(nodes[1], 0, y);
  EXPECT_EQ(edit.readers(x), (std::vector<NodeId>{nodes[0], nodes[2], nodes[3], nodes[4]}));
  EXPECT_EQ(edit.only_reader(y), nodes[1]);
}

// One value may be several outputs and the next value of several states; replace() moves all of them.
TEST(Edit, ReplacesOutputsAndStates) {
  testing::Net net;
  const ValueId x = net.input("x", Shape{2});
  const ValueId a = net.graph.add_state(Tensor::zeros(DType::f32, Shape{2}), "a");
  const ValueId b = net.graph.add_state(Tensor::zeros(DType::f32, Shape{2}), "b");
  const ValueId sum = net.op("Add", {x, net.op("Add", {a, b})});
  for (const ValueId state : {a, b}) net.graph.set_next(state, sum);
  net.output(sum, "y");
  net.output(x, "x_again");
  net.output(sum, "y_again");
  Edit edit(net.graph);
  const ValueId relu = edit.make(net.graph.value(sum).producer, "Relu", {x});
  edit.replace(sum, relu);
  for (const State& state : net.graph.states()) EXPECT_EQ(state.next, relu);
  EXPECT_EQ(net.graph.outputs()[0].value, relu);
  EXPECT_EQ(net.graph.outputs()[1].value, x);
  EXPECT_EQ(net.graph.outputs()[2].value, relu);
  EXPECT_TRUE(edit.leaves_graph(relu));
  EXPECT_FALSE(edit.leaves_graph(sum));
  EXPECT_TRUE(net.graph.erased(net.graph.value(sum).producer));
  edit.replace(relu, x);
  EXPECT_EQ(net.graph.outputs()[2].value, x);
  EXPECT_EQ(net.graph.states()[1].next, x);
}

}  // namespace
}  // namespace sparkpilot

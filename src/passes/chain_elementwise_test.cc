#include <gtest/gtest.h>

#include "ir/elementwise_chain.h"
#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

constexpr const char* kChain = "sparkpilot::ElementwiseChain";

std::vector<std::string> steps(const Graph& graph) {
  for (const NodeId id : graph.order()) {
    if (is_op(graph.node(id), kChain)) return graph.node(id).attrs.texts("steps");
  }
  return {};
}
using Texts = std::vector<std::string>;

TEST(ChainElementwise, WhatFollowsOneAnotherIsOneNode) {
  Net n;
  const ValueId x = n.input("x", {2, 5, 7}), scale = n.input("scale", {7});
  ValueId y = n.op("Mul", {scale, x});
  y = n.op("Relu", {n.op("Sub", {n.scalar(1), y})});
  n.output(n.op("Div", {x, n.op("Add", {y, n.scalar(2)})}));
  EXPECT_EQ(run_and_compare(n.graph, chain_elementwise), 1);
  EXPECT_EQ(n.graph.node_count(), 1);
  EXPECT_EQ(steps(n.graph), (Texts{"Mul:1", "Sub:2:reversed", "Relu", "Add:3", "Div:1:reversed"}));
}

TEST(ChainElementwise, ValuesThatOthersReadAreStored) {
  Net n;
  const ValueId x = n.input("x", {3, 4});
  const ValueId a = n.op("Exp", {x}), b = n.op("Neg", {a}), wide = n.op("Tanh", {n.input("row", {4})});
  n.output(n.op("Add", {n.op("Abs", {b}), wide}), "read_by_the_sum");
  n.output(n.op("ReduceSum", {b, n.b.ints({0})}));
  n.output(a);
  EXPECT_EQ(run_and_compare(n.graph, chain_elementwise), 1);
  EXPECT_EQ(steps(n.graph), (Texts{"Abs", "Add:1"}));
  EXPECT_EQ(count(n.graph, "Tanh"), 1);  // of fewer elements: it would be computed once for each row
}

// The gradient of Relu in a sum of two branches, and a square: what is kept.
TEST(ChainElementwise, TwoBranchesMeet) {
  Net n;
  const ValueId g = n.op("Add", {n.input("g", {40}), n.input("h", {40})});
  const ValueId zero = n.scalar(0);
  n.output(n.op("Where", {n.op("Greater", {n.input("y", {40}), zero}), g, zero}));
  EXPECT_EQ(run_and_compare(n.graph, chain_elementwise), 1);
  EXPECT_EQ(steps(n.graph), (Texts{"Add:1", "Keep", "Load:2", "Greater:3", "Where:kept:3"}));
  Net square;
  const ValueId x = square.op("Sub", {square.input("x", {4, 9}), square.input("mean", {4, 1})});
  const ValueId other = square.op("Exp", {square.input("z", {4, 9})});
  square.output(square.op("Div", {other, square.op("Mul", {x, x})}));
  EXPECT_EQ(run_and_compare(square.graph, chain_elementwise), 1);
  EXPECT_EQ(steps(square.graph), (Texts{"Sub:1", "Keep", "Mul:kept", "Keep", "Load:2", "Exp", "Div:kept"}));
}

TEST(ChainElementwise, ComparisonsGoWithTheirWhereOnly) {
  Net n;
  const ValueId x = n.input("x", {8}), y = n.input("y", {8});
  const ValueId a = n.op("Less", {n.op("Neg", {x}), y}), b = n.op("Equal", {x, y});
  n.output(n.op("Where", {a, x, y}), "once");
  n.output(n.op("Where", {b, x, y}), "twice");
  n.output(n.op("Neg", {n.op("Where", {n.op("Not", {b}), y, x})}), "not");
  n.output(n.op("Cast", {n.op("Greater", {n.op("Neg", {y}), x})}, {{"to", int64_t{1}}}), "cast");
  EXPECT_EQ(run_and_compare(n.graph, chain_elementwise), 2);
  EXPECT_EQ(count(n.graph, "Equal"), 1);
  EXPECT_EQ(count(n.graph, "Greater"), 1);
  EXPECT_EQ(count(n.graph, "Where"), 1);
}

TEST(ChainElementwise, TypesDoNotMix) {
  Net n;
  const ValueId x = n.op("Neg", {n.input("x", {8}, DType::f16)}), y = n.input("y", {8}, DType::f16);
  n.output(n.op("Where", {n.op("Less", {x, y}), n.input("a", {8}), n.input("b", {8})}));
  EXPECT_EQ(run_and_compare(n.graph, chain_elementwise), 0);
}

TEST(ChainElementwise, ComparisonsIn16BitsReadWhatIsRounded) {
  Net n;
  const auto input = [&](const char* name) { return n.input(name, {64}, DType::bf16); };
  const ValueId a = input("a"), b = input("b"), g = input("g");
  const ValueId y = n.op("Max", {n.op("Mul", {a, b}), input("c")}), again = n.op("Mul", {a, b});
  n.output(n.op("Where", {n.op("Equal", {again, y}), g, n.op("Sub", {g, g})}));
  n.output(y, "most");
  EXPECT_GT(run_and_compare(n.graph, chain_elementwise), 0);
}

TEST(ChainElementwise, ShapesThatAreNotKnownAreLeftAlone) {
  Net n;
  const ValueId x = n.input("x", {4}), zero = n.scalar(0);
  const ValueId wide = n.op("Expand", {n.input("y", {1}), n.input("shape", {1}, DType::i64)});
  n.output(n.op("Where", {n.op("Greater", {n.op("Abs", {x}), zero}), x, wide}));
  infer(n.graph);
  EXPECT_EQ(chain_elementwise(n.graph), 0);
}

TEST(ChainElementwise, LongChainsAreSeveral) {
  Net n;
  ValueId y = n.input("x", {6});
  for (int i = 0; i < 40; ++i) y = n.op("Tanh", {y});
  for (int i = 0; i < 20; ++i) y = n.op("Add", {y, n.input("a" + std::to_string(i), {6})});
  n.output(y);
  EXPECT_GT(run_and_compare(n.graph, chain_elementwise), 3);
  EXPECT_EQ(count(n.graph, "Tanh") + count(n.graph, "Add"), 0);
  for (const NodeId id : n.graph.order()) {
    EXPECT_LE(n.graph.node(id).inputs.size(), kMostChainInputs);
    EXPECT_LE(n.graph.node(id).attrs.texts("steps").size(), kMostChainSteps);
  }
}

// Random graphs of such ops, with broadcasts, several readers and outputs between.
TEST(ChainElementwise, RandomGraphsKeepTheirValues) {
  const char* const one[] = {"Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Sign"};
  const char* const two[] = {"Add", "Sub", "Max", "Min"};
  const char* const compare[] = {"Greater", "LessOrEqual", "Less", "GreaterOrEqual"};
  int chains = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Net n;
    const Shape shapes[] = {{3, 5}, {3, 5}, {5}, {3, 1}, {}};
    std::vector<ValueId> values;
    for (const Shape& shape : shapes) values.push_back(n.input("x" + std::to_string(values.size()), shape));
    const auto any = [&] {
      // Mostly what was made last, so that chains are long.
      const auto size = static_cast<int64_t>(values.size());
      const int64_t from = random.uniform() < 0.7 ? std::max<int64_t>(0, size - 4) : 0;
      return values[static_cast<size_t>(random.integer(from, size - 1))];
    };
    const auto pick = [&](const auto& names) {
      return names[static_cast<size_t>(random.integer(0, std::ssize(names) - 1))];
    };
    for (int i = 0; i < 25; ++i) {
      const double kind = random.uniform();
      if (kind < 0.3) values.push_back(n.op(pick(one), {any()}));
      else if (kind < 0.7) values.push_back(n.op(pick(two), {any(), any()}));
      else if (kind < 0.8) values.push_back(n.op("Tanh", {n.op("Mul", {any(), any()})}));
      else values.push_back(n.op("Where", {n.op(pick(compare), {any(), any()}), any(), any()}));
      if (random.uniform() < 0.1) n.output(values.back(), "y" + std::to_string(i));
    }
    n.output(values.back(), "last");
    chains += run_and_compare(n.graph, chain_elementwise, 1e-5);
  }
  EXPECT_GT(chains, 400);
}

}  // namespace
}  // namespace sparkpilot

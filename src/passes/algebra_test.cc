#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

TEST(SimplifyAlgebra, DropsNeutralOperandsOnEitherSide) {
  Net n;
  const ValueId x = n.input("x", {2, 3, 4});
  const ValueId ones = n.b.constant(Tensor::of<float>(Shape{4}, {1, 1, 1, 1}));
  ValueId v = n.op("Mul", {x, ones});
  v = n.op("Add", {n.scalar(0), v});
  v = n.op("Sub", {v, n.scalar(0)});
  v = n.op("Div", {v, n.scalar(1)});
  v = n.op("Relu", {v});
  n.output(v);
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 4);
  EXPECT_EQ(n.graph.node_count(), 1);
}

TEST(SimplifyAlgebra, LeavesWhatWidensOrSubtractsFrom) {
  Net n;
  const ValueId x = n.input("x", {3, 1});
  n.output(n.op("Mul", {x, n.b.constant(Tensor::of<float>(Shape{2}, {1, 1}))}), "wide");
  n.output(n.op("Sub", {n.scalar(0), x}), "negated");
  n.output(n.op("Add", {x, n.b.constant(Tensor::of<float>(Shape{3, 1}, {0, 0, 1}))}), "added");
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 0);
  EXPECT_EQ(n.graph.node_count(), 3);
}

TEST(SimplifyAlgebra, DividesByPowersOfTwoOnly) {
  Net n;
  const ValueId x = n.input("x", {5});
  n.output(n.op("Div", {x, n.scalar(8)}), "eighth");
  n.output(n.op("Div", {x, n.scalar(3)}), "third");
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra, 0), 1);
  EXPECT_EQ(count(n.graph, "Div"), 1);
}

TEST(SimplifyAlgebra, MergesTransposes) {
  Net n;
  const ValueId x = n.input("x", {2, 3, 4, 5});
  n.output(n.op("Relu", {n.transpose(n.transpose(x, {0, 2, 3, 1}), {0, 3, 1, 2})}), "same");
  n.output(n.transpose(n.transpose(x, {1, 0, 2, 3}), {0, 2, 1, 3}), "other");
  const ValueId one = n.input("one", {1, 7, 1, 1});
  n.output(n.transpose(one, {0, 2, 3, 1}), "ones_moved");
  run_and_compare(n.graph, simplify_algebra);
  EXPECT_EQ(count(n.graph, "Transpose"), 1);
  EXPECT_EQ(count(n.graph, "Reshape"), 1);
}

TEST(SimplifyAlgebra, MergesTransposesThatCountFromTheEnd) {
  Net n;
  const ValueId x = n.input("x", {2, 3, 4});
  n.output(n.op("Relu", {n.transpose(n.transpose(x, {-1, 0, -2}), {1, 2, 0})}), "same");
  run_and_compare(n.graph, simplify_algebra);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
}

TEST(SimplifyAlgebra, ViewsBecomeOneReshape) {
  Net n;
  const ValueId x = n.input("x", {2, 1, 3, 4});
  ValueId v = n.op("Squeeze", {x, n.b.ints({1})});
  v = n.op("Flatten", {v}, {{"axis", int64_t{1}}});
  v = n.op("Unsqueeze", {v, n.b.ints({0})});
  n.output(n.op("Relu", {v}));
  n.output(n.op("Relu", {n.reshape(n.reshape(x, {24}), {2, 1, 3, 4})}), "back");
  run_and_compare(n.graph, simplify_algebra);
  EXPECT_EQ(count(n.graph, "Reshape"), 1);
  EXPECT_EQ(n.graph.node_count(), 3);
}

TEST(SimplifyAlgebra, DropsCopiesButKeepsOutputsNamed) {
  Net n;
  const ValueId x = n.input("x", {2, 6});
  ValueId v = n.op("Cast", {x}, {{"to", int64_t{1}}});
  v = n.op("Slice", {v, n.b.ints({0}), n.b.ints({99}), n.b.ints({1})});
  v = n.op("Concat", {v}, {{"axis", int64_t{0}}});
  v = n.op("Identity", {v});
  n.output(v, "direct");
  n.output(n.op("Identity", {n.op("Relu", {v})}), "after");
  run_and_compare(n.graph, simplify_algebra);
  EXPECT_EQ(n.graph.node_count(), 2);
  EXPECT_EQ(n.graph.outputs()[0].name, "direct");
}

TEST(SimplifyAlgebra, SquaresAndSums) {
  Net n;
  const ValueId x = n.input("x", {3, 3});
  n.output(n.op("Pow", {x, n.scalar(2)}), "square");
  n.output(n.op("Sum", {x, n.op("Relu", {x})}), "sum");
  n.output(n.op("Pow", {n.op("Relu", {x}), n.scalar(2.5)}), "power");
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 2);
  EXPECT_EQ(count(n.graph, "Pow"), 1);
  EXPECT_EQ(count(n.graph, "Add"), 1);
}

TEST(SimplifyAlgebra, PadsGoIntoConvolutions) {
  Net n;
  const ValueId x = n.input("x", {1, 3, 6, 5});
  const ValueId w = n.weight({4, 3, 3, 3}, 1);
  const Attributes pads{{"pads", std::vector<int64_t>{1, 0, 0, 1}}};
  const ValueId zero = n.op("Pad", {x, n.b.ints({0, 0, 1, 2, 0, 0, 3, 0})});
  n.output(n.op("Conv", {zero, w}, pads), "zero");
  const ValueId one = n.op("Pad", {x, n.b.ints({0, 0, 1, 1, 0, 0, 1, 1}), n.scalar(1)});
  n.output(n.op("Conv", {one, w}), "one");
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 1);
  EXPECT_EQ(count(n.graph, "Pad"), 1);
}

TEST(SimplifyAlgebra, PadsGoIntoAverages) {
  Net n;
  const ValueId x = n.input("x", {1, 3, 6, 5});
  const Attributes window{{"kernel_shape", std::vector<int64_t>{3, 3}}};
  n.output(n.op("AveragePool", {n.op("Pad", {x, n.b.ints({0, 0, 1, 1, 0, 0, 1, 1})})}, window), "zero");
  Attributes own = window;
  own.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  n.output(n.op("AveragePool", {n.op("Pad", {x, n.b.ints({0, 0, 1, 1, 0, 0, 1, 1})})}, own), "edges");
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 1);
  EXPECT_EQ(count(n.graph, "Pad"), 1);
}

TEST(SimplifyAlgebra, SoftmaxComesOutOfReshapesAndTransposes) {
  Net n;
  const ValueId x = n.op("Relu", {n.input("x", {2, 7, 3, 4})});
  const ValueId flat = n.reshape(n.transpose(x, {0, 3, 2, 1}), {24, 7});
  const ValueId back = n.reshape(n.op("Softmax", {flat}, {{"axis", int64_t{1}}}), {2, 4, 3, 7});
  n.output(n.transpose(back, {0, 3, 2, 1}), "channels");
  const ValueId whole = n.op("Softmax", {n.reshape(x, {2, 84})}, {{"axis", int64_t{1}}});
  n.output(n.reshape(whole, {2, 7, 3, 4}), "whole");
  run_and_compare(n.graph, simplify_algebra);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
  EXPECT_EQ(count(n.graph, "Reshape"), 2);
}

TEST(SimplifyAlgebra, ActivationsMoveBeforeViews) {
  Net n;
  const ValueId x = n.input("x", {1, 3, 6, 5});
  const ValueId c = n.op("Conv", {x, n.weight({4, 3, 1, 1}, 1)});
  n.output(n.op("Max", {n.op("Flatten", {n.transpose(c, {0, 2, 3, 1})}), n.scalar(0.1)}), "moved");
  const ValueId d = n.op("Flatten", {n.op("Conv", {x, n.weight({4, 3, 1, 1}, 2)})});
  n.output(n.op("Add", {n.op("Relu", {d}), d}), "used_twice");
  run_and_compare(n.graph, simplify_algebra);
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    const int rank = n.graph.value(node.outputs[0]).shape->rank();
    EXPECT_TRUE(!is_op(node, "Max") || rank == 4);
    EXPECT_TRUE(!is_op(node, "Relu") || rank == 2);
  }
}

TEST(SimplifyAlgebra, ChannelShuffleBecomesTwoSlices) {
  Net n;
  const ValueId x = n.input("x", {1, 6, 4, 5});
  const ValueId t = n.transpose(n.reshape(x, {3, 2, 20}), {1, 0, 2});
  const ValueId five = n.reshape(t, {2, -1, 3, 4, 5});
  const Attributes axis{{"axis", int64_t{0}}};
  n.output(n.op("Gather", {five, n.b.constant(Tensor::scalar<int64_t>(0))}, axis), "even");
  n.output(n.op("Gather", {five, n.b.constant(Tensor::scalar<int64_t>(-1))}, axis), "odd");
  run_and_compare(n.graph, simplify_algebra, 0);
  EXPECT_EQ(count(n.graph, "Slice"), 2);
  EXPECT_EQ(n.graph.node_count(), 2);
}

TEST(SimplifyAlgebra, LeavesSelectionsThatAreNoSlice) {
  Net n;
  const ValueId x = n.input("x", {2, 3, 4});
  const ValueId four = n.reshape(n.transpose(x, {2, 1, 0}), {2, 2, 3, 2});
  n.output(n.op("Gather", {four, n.b.constant(Tensor::scalar<int64_t>(1))}, {{"axis", int64_t{0}}}));
  run_and_compare(n.graph, simplify_algebra, 0);
  EXPECT_EQ(count(n.graph, "Gather"), 1);
}

// A list that grows by one at a time becomes one Concat, with the parts in their order.
// The gradient of a value that is sliced: the ranges come in any order, one lies over another, one along another axis.
TEST(SimplifyAlgebra, SumsOfPadsBecomeConcats) {
  Net n;
  const auto pad = [&](const char* name, const Shape& shape, std::initializer_list<int64_t> pads) {
    return n.op("Pad", {n.input(name, shape), n.b.ints(pads)});
  };
  const ValueId a = pad("a", {2, 3}, {0, 5, 0, 2}), b = pad("b", {2, 4}, {0, 0, 0, 6}), whole = n.input("x", {2, 10});
  const ValueId over = pad("over", {2, 2}, {0, 4, 0, 4}), c = pad("c", {2, 1}, {0, 8, 0, 1});
  const ValueId row = pad("row", {1, 10}, {1, 0, 0, 0});
  n.output(n.op("Add", {n.op("Add", {n.op("Add", {a, whole}), n.op("Add", {b, over})}), n.op("Add", {c, row})}));
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 1);
  EXPECT_EQ(count(n.graph, "Concat"), 2);  // b and over, a and c
  EXPECT_EQ(count(n.graph, "Pad"), 1);     // row
  EXPECT_EQ(count(n.graph, "Add"), 3);
}

// As many as a hostile file may have, which lie over one another; and few in a wide value, whose zeros would be
// constants.
TEST(SimplifyAlgebra, SumsOfManyPadsTakeNoLongerThanTheirNumber) {
  Net n;
  const ValueId x = n.input("x", {4});
  ValueId sum = n.op("Pad", {x, n.b.ints({0, 4})});
  for (int i = 1; i < 20000; ++i) sum = n.op("Add", {sum, n.op("Pad", {x, n.b.ints({i % 2 * 4, 4 - i % 2 * 4})})});
  n.output(sum);
  infer(n.graph);
  EXPECT_GT(simplify_algebra(n.graph), 0);
  EXPECT_EQ(count(n.graph, "Pad"), 0);
  Net many;  // each pair leaves nearly all zeros
  const ValueId first = many.input("x", {1});
  const auto zeros = [&](int i) { return i % 2 ? many.b.ints({8000, 8383}) : many.b.ints({0, 16383}); };
  ValueId all = many.op("Pad", {first, zeros(0)});
  for (int i = 1; i < 3000; ++i) all = many.op("Add", {all, many.op("Pad", {first, zeros(i)})});
  many.output(all);
  infer(many.graph);
  EXPECT_LE(simplify_algebra(many.graph), 1);
  EXPECT_GT(count(many.graph, "Pad"), 2900);
  Net best;  // the first and the last are the whole
  const ValueId large = best.input("large", {90000}), small = best.input("small", {10000}),
                tiny = best.input("tiny", {1});
  best.output(best.op("Add", {best.op("Add", {best.op("Pad", {large, best.b.ints({0, 10000})}),
                                              best.op("Pad", {tiny, best.b.ints({0, 99999})})}),
                              best.op("Pad", {small, best.b.ints({90000, 0})})}));
  EXPECT_EQ(run_and_compare(best.graph, simplify_algebra), 1);
  EXPECT_EQ(count(best.graph, "Pad"), 1);
  Net wide;
  const ValueId one = wide.input("x", {1});
  wide.output(wide.op(
      "Add", {wide.op("Pad", {one, wide.b.ints({7, 999992})}), wide.op("Pad", {one, wide.b.ints({70, 999929})})}));
  EXPECT_EQ(run_and_compare(wide.graph, simplify_algebra), 0);
}

TEST(SimplifyAlgebra, LeavesPadsThatOthersReadOrThatAddMoreThanZeros) {
  Net n;
  const ValueId a = n.op("Pad", {n.input("a", {2, 3}), n.b.ints({0, 5, 0, 2})});
  const ValueId b = n.op("Pad", {n.input("b", {2, 4}), n.b.ints({0, 0, 0, 6}), n.scalar(1)});
  const ValueId c = n.op("Pad", {n.input("c", {2, 1}), n.b.ints({0, 4, 0, 5})}, {{"mode", std::string("edge")}});
  n.output(n.op("Add", {n.op("Add", {a, b}), c}));
  const ValueId d = n.op("Pad", {n.input("d", {2, 4}), n.b.ints({0, 0, 0, 6})});
  n.output(n.op("Add", {d, n.op("Pad", {n.input("e", {2, 4}), n.b.ints({0, 6, 0, 0})})}));
  n.output(n.op("Neg", {d}));
  EXPECT_EQ(run_and_compare(n.graph, simplify_algebra), 0);
}

TEST(Algebra, MergesAChainOfConcats) {
  testing::Net net;
  const ValueId x = net.input("x", Shape{2, 3}), y = net.input("y", Shape{1, 3});
  ValueId all = net.op("Concat", {x, y}, {{"axis", int64_t{0}}});
  for (int i = 0; i < 10; ++i) {
    all = i % 2 ? net.op("Concat", {all, x, y}, {{"axis", int64_t{-2}}})
                : net.op("Concat", {y, all}, {{"axis", int64_t{0}}});
  }
  const ValueId other = net.op("Concat", {all, all}, {{"axis", int64_t{1}}});
  net.output(net.op("Concat", {other, net.op("Concat", {x, x}, {{"axis", int64_t{1}}})}, {{"axis", int64_t{0}}}));
  EXPECT_GT(testing::run_and_compare(net.graph, simplify_algebra, 0), 0);
  // What is left: the chain, the one that reads it twice along the other axis, the pair, and the last.
  EXPECT_EQ(testing::count(net.graph, "Concat"), 4);
}

}  // namespace
}  // namespace sparkpilot

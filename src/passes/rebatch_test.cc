#include "passes/rebatch.h"

#include <gtest/gtest.h>

#include "ops/check.h"
#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::Net;

Tensor entry(const Tensor& whole, const Shape& one, int64_t at) {
  Tensor out(whole.dtype(), one);
  for (int64_t i = 0; i < one.elements(); ++i) {
    store_element(out.dtype(), out.raw(), i, load_element(whole.dtype(), whole.raw(), at * one.elements() + i));
  }
  return out;
}

// Compares the rebatched graph with runs of the single entries; returns the number of nodes of the rebatched graph.
int expect_entries_are_runs(const Graph& graph, int64_t batch, double tolerance = 1e-6) {
  const Graph many = rebatch(graph, batch);
  const std::vector<Tensor> inputs = testing::random_inputs(many, 3);
  const std::vector<Tensor> together = interpret(many, inputs);
  for (int64_t at = 0; at < batch; ++at) {
    std::vector<Tensor> own;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = *graph.value(graph.inputs()[i]).shape;
      own.push_back(shape == inputs[i].shape() ? inputs[i] : entry(inputs[i], shape, at));
    }
    const std::vector<Tensor> alone = interpret(graph, own);
    for (size_t o = 0; o < alone.size(); ++o) {
      Shape expected = alone[o].shape();
      expected.set(0, expected[0] * batch);
      EXPECT_TRUE(together[o].shape() == expected) << together[o].shape().str();
      if (!(together[o].shape() == expected)) return 0;
      EXPECT_LE(testing::distance(entry(together[o], alone[o].shape(), at), alone[o]), tolerance)
          << "entry " << at << " of output " << o;
    }
  }
  return static_cast<int>(many.order().size());
}

// Convolutions, a pool, a flattened image, a product and a norm: the batch goes through all of them.
TEST(Rebatch, StacksAlongTheBatch) {
  Net net;
  const ValueId x = net.input("x", Shape{1, 3, 8, 6});
  const ValueId c = net.op("Conv", {x, net.weight({4, 3, 3, 3}, 1)}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  const ValueId p = net.op("MaxPool", {net.op("Relu", {c})},
                           {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  const ValueId y = net.op("MatMul", {net.reshape(p, {1, 48}), net.weight({48, 5}, 2)});
  net.output(net.op("Softmax", {net.op("Add", {y, net.weight({1, 5}, 3)})}));
  const int nodes = static_cast<int>(net.graph.order().size());
  EXPECT_EQ(expect_entries_are_runs(net.graph, 3), nodes);
}

// Reshapes that merge the batch with another axis, and split it again.
TEST(Rebatch, FollowsViews) {
  Net net;
  const ValueId x = net.input("x", Shape{1, 5, 4});
  const ValueId rows = net.op("MatMul", {net.reshape(x, {5, 4}), net.weight({4, 6}, 1)});
  const ValueId back = net.reshape(rows, {1, 5, 2, 3});
  net.output(net.op("ReduceMean", {net.transpose(back, {0, 2, 1, 3}), net.b.ints({2})}));
  EXPECT_LE(expect_entries_are_runs(net.graph, 4), 5);
}

// Heads without an axis for the batch cannot be stacked: q k^T has no axis for two entries.
TEST(Rebatch, RepeatsWhatCannotBeStacked) {
  Net net;
  const ValueId x = net.input("x", Shape{1, 5, 8});
  const auto heads = [&](uint64_t seed) {
    return net.transpose(net.reshape(net.op("MatMul", {net.reshape(x, {5, 8}), net.weight({8, 6}, seed)}), {5, 2, 3}),
                         {1, 0, 2});
  };
  const ValueId scores = net.op("MatMul", {heads(1), net.transpose(heads(2), {0, 2, 1})});
  net.output(net.op("CumSum", {scores, net.b.constant(Tensor::scalar(int64_t{1}))}));
  EXPECT_GT(expect_entries_are_runs(net.graph, 3), 6);
}

// Scalars, operands shared by all entries, a constant as an output, and two outputs.
TEST(Rebatch, SharedAndSingleNumbers) {
  Net net;
  const ValueId x = net.input("x", Shape{1, 7}), gain = net.input("gain", Shape{});
  const ValueId largest = net.op("ReduceMax", {x}, {{"keepdims", int64_t{0}}});
  net.output(net.op("Sub", {net.op("Mul", {x, gain}), largest}), "a");
  net.output(net.op("Concat", {net.weight({1, 2}, 1), net.reshape(largest, {1, 1})}, {{"axis", int64_t{1}}}), "b");
  net.output(net.weight({1, 3}, 2), "c");
  net.output(net.op("TopK", {x, net.b.ints({2})}), "d");
  expect_entries_are_runs(net.graph, 3);
  expect_entries_are_runs(net.graph, 1);
}

TEST(Rebatch, RecurrentNetworks) {
  Net net;
  const ValueId x = net.input("x", Shape{1, 4, 3});  // the batch comes first here; the op wants the steps first
  const std::vector<ValueId> y =
      net.b.add_many("GRU", {net.transpose(x, {1, 0, 2}), net.weight({1, 15, 3}, 1), net.weight({1, 15, 5}, 2)},
                     {{"hidden_size", int64_t{5}}}, 2);
  net.output(net.transpose(y[0], {2, 0, 1, 3}), "all");
  net.output(net.transpose(y[1], {1, 0, 2}), "last");
  EXPECT_EQ(expect_entries_are_runs(net.graph, 3), 4);
}

std::string refusal(const Graph& graph, int64_t batch) {
  try {
    rebatch(graph, batch);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::user ? error.what() : "";
  }
  return "";
}

TEST(Rebatch, RefusesWhatHasNoBatch) {
  Net number;
  number.output(number.op("ReduceSum", {number.input("x", Shape{1, 3})}, {{"keepdims", int64_t{0}}}));
  EXPECT_NE(refusal(number.graph, 2).find("output \"y\" is a single number"), std::string::npos);
  EXPECT_NE(refusal(number.graph, 0).find("expected at least 1, got 0"), std::string::npos);
  Net random;
  random.output(random.op(
      "Add", {random.input("x", Shape{1, 3}), random.op("RandomNormal", {}, {{"shape", std::vector<int64_t>{1, 3}}})}));
  EXPECT_NE(refusal(random.graph, 2), "");
  Net repeated;
  repeated.output(
      repeated.op("CumSum", {repeated.input("x", Shape{1, 3}), repeated.b.constant(Tensor::scalar(int64_t{0}))}));
  EXPECT_NE(refusal(repeated.graph, int64_t{1} << 32).find("needs more than 1000000 nodes"), std::string::npos);
  Net data;
  data.output(data.op("NonZero", {data.input("x", Shape{1, 3})}));
  EXPECT_NE(refusal(data.graph, 2).find("depends on data"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot

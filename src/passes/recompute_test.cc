#include "passes/recompute.h"

#include <gtest/gtest.h>

#include <cstring>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::random_inputs;
using testing::random_tensor;

constexpr int64_t kRows = 64, kWidth = 32, kBytes = kRows * kWidth * 4;
constexpr int kLayers = 24;

// A chain of products and tanh whose last sum is the output. Going back, every result of tanh is read again, the last
// one first, and each layer has a state that becomes what flows there. With `noise` a layer's result is multiplied with
// random numbers, and so is what flows back.
Graph chain(bool noise = false) {
  Net n;
  ValueId x = n.input("x", {kRows, kWidth});
  std::vector<ValueId> weights, masks, results;
  const ValueId key = n.b.constant(Tensor::scalar<uint64_t>(7));
  const ValueId counter = n.graph.add_state(Tensor::scalar<uint64_t>(3), "counter");
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(n.weight({kWidth, kWidth}, static_cast<uint64_t>(i)));
    x = n.op("Tanh", {n.op("MatMul", {x, weights.back()})});
    if (noise && i % 4 == 0) {
      const ValueId at = n.op("Add", {counter, n.b.constant(Tensor::scalar(static_cast<uint64_t>(1000 * i)))});
      masks.push_back(n.op("sparkpilot::RandomUniform", {key, at}, {{"shape", std::vector<int64_t>{kRows, kWidth}}}));
      x = n.op("Mul", {x, masks.back()});
    } else {
      masks.push_back({});
    }
    results.push_back(x);
  }
  n.output(n.op("ReduceSum", {x}, {{"keepdims", int64_t{0}}}));
  ValueId g = n.op("Mul", {x, n.scalar(0.5)});
  for (size_t i = kLayers; i-- > 0;) {
    const ValueId state = n.graph.add_state(Tensor::zeros(DType::f32, {kRows, kWidth}), fmt::format("s{}", i));
    if (masks[i].present()) g = n.op("Mul", {g, masks[i]});
    g = n.op("Mul", {g, n.op("Sub", {n.scalar(1), n.op("Mul", {results[i], results[i]})})});
    n.graph.set_next(state, g);
    g = n.op("MatMul", {g, n.transpose(weights[i], {1, 0})});
  }
  n.graph.set_next(counter, n.op("Add", {counter, n.b.constant(Tensor::scalar<uint64_t>(100))}));
  infer(n.graph);
  return std::move(n.graph);
}

// The output and the states' next contents of two runs, one after the other.
std::vector<Tensor> results_of(const Graph& graph) {
  std::vector<Tensor> states, out;
  for (const State& state : graph.states()) states.push_back(graph.value(state.value).constant.clone());
  for (int run = 0; run < 2; ++run) {
    for (const Tensor& each : interpret(graph, random_inputs(graph, 5), &states)) out.push_back(each.clone());
    for (const Tensor& each : states) out.push_back(each.clone());
  }
  return out;
}

void expect_same_bits(const Graph& got, const Graph& expected) {
  const std::vector<Tensor> a = results_of(got), b = results_of(expected);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].bytes(), b[i].bytes());
    EXPECT_EQ(std::memcmp(a[i].raw(), b[i].raw(), static_cast<size_t>(a[i].bytes())), 0) << i;
  }
}

TEST(Recompute, LeavesAGraphThatFits) {
  Graph graph = chain();
  const int nodes = graph.node_count();
  const Recomputation made = recompute(graph, int64_t{1} << 40);
  EXPECT_EQ(made.nodes, 0);
  EXPECT_EQ(made.share, 0);
  EXPECT_EQ(graph.node_count(), nodes);
  // All results of tanh but the last, which is there anyway, and what flows at the end.
  EXPECT_GE(made.bytes, kLayers * kBytes);
  EXPECT_LE(made.bytes, (kLayers + 4) * kBytes);
}

TEST(Recompute, KeepsTheBudgetWithTheSameBits) {
  const Graph whole = chain();
  Graph copy = whole;
  const int64_t most = recompute(copy, int64_t{1} << 40).bytes;
  copy = whole;
  const int64_t least = recompute(copy, 0).bytes;
  EXPECT_GT(least, 0);
  // Segments of about the root of the layers: 5 results that are kept and 5 computed again.
  EXPECT_LE(least, 14 * kBytes);
  double share = 0;
  for (const int64_t bytes : {most - 1, (3 * most + least) / 4, (most + least) / 2, least}) {
    SCOPED_TRACE(bytes);
    Graph graph = whole;
    const Recomputation made = recompute(graph, bytes);
    EXPECT_LE(made.bytes, bytes);
    EXPECT_GT(made.nodes, 0);
    EXPECT_GE(made.share, share);
    share = made.share;
    EXPECT_EQ(graph.states().size(), whole.states().size());
    expect_same_bits(graph, whole);
    // What it foretold is what a graph takes that is as it is now.
    Graph again = graph;
    EXPECT_EQ(recompute(again, int64_t{1} << 40).bytes, made.bytes);
  }
  EXPECT_LT(share, 0.5);  // no value twice
  Graph graph = whole;
  EXPECT_EQ(recompute(graph, least - 1).bytes, least);
}

TEST(Recompute, DrawsTheSameNumbersAgain) {
  const Graph whole = chain(true);
  Graph graph = whole;
  recompute(graph, 0);
  EXPECT_GT(count(graph, "sparkpilot::RandomUniform"), count(whole, "sparkpilot::RandomUniform"));
  expect_same_bits(graph, whole);
}

// What is cheap for its bytes is computed again before what costs much.
TEST(Recompute, ComputesCheapValuesAgainFirst) {
  Net n;
  const ValueId x = n.input("x", {kRows, kWidth});
  const ValueId product = n.op("MatMul", {n.op("MatMul", {x, n.weight({kWidth, 512}, 1)}), n.weight({512, kWidth}, 2)});
  const ValueId sine = n.op("Sin", {x});
  n.output(n.op("ReduceSum", {n.op("Add", {product, sine})}, {{"keepdims", int64_t{0}}}));
  // A large value in the middle, at which one of the two must go.
  const ValueId wide = n.op("Sin", {n.op("Concat", std::vector<ValueId>(40, x), {{"axis", int64_t{0}}})});
  const ValueId state = n.graph.add_state(Tensor::zeros(DType::f32, {kRows, kWidth}), "s");
  const ValueId sum = n.op("ReduceSum", {wide, n.b.ints({0, 1})}, {{"keepdims", int64_t{1}}});
  n.graph.set_next(state, n.op("Add", {n.op("Mul", {product, sine}), sum}));
  infer(n.graph);
  Graph graph = n.graph;
  const int64_t all = recompute(graph, int64_t{1} << 40).bytes;
  graph = n.graph;
  const Recomputation made = recompute(graph, all - 1);
  EXPECT_LT(made.bytes, all);
  EXPECT_EQ(made.nodes, 1);
  EXPECT_EQ(count(graph, "MatMul"), 2);
  EXPECT_EQ(count(graph, "Sin"), 3);
}

}  // namespace
}  // namespace sparkpilot

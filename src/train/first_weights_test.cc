// Layers that begin with a mean of zero, and batches to begin with.
#include "train/first_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/interpret.h"
#include "passes/test_graph.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::train {
namespace {

using testing::distance;
using testing::random_tensor;

// Far from zero in the mean, as pictures are.
Tensor pictures() {
  Tensor out = random_tensor({6, 3, 5, 7}, 9);
  for (float& x : out.data<float>()) x += 4;
  return out;
}

struct Small {
  Graph graph;
  std::map<ValueId, std::string> weights;
  std::vector<ValueId> layers;  // results
};

// Conv, Gemm, MatMul and Add behind ReLU, on images whose mean is far from 0.
Small small_network() {
  Small s;
  s.graph.opsets[""] = 26;
  Builder b(s.graph);
  uint64_t seed = 1;
  const auto weight = [&](const Shape& shape, const char* name) {
    const ValueId id = b.constant(random_tensor(shape, ++seed));
    s.weights[id] = name;
    return id;
  };
  const ValueId x = s.graph.add_input("x", DType::f32, {6, 3, 5, 7});
  const ValueId conv = b.add("Conv", {x, weight({4, 3, 3, 3}, "conv.w"), weight({4}, "conv.b")});
  const ValueId flat = b.add("Flatten", {b.add("Relu", {conv})}, {{"axis", int64_t{1}}});
  const ValueId gemm =
      b.add("Gemm", {flat, weight({8, 60}, "gemm.w"), weight({8}, "gemm.b")}, {{"transB", int64_t{1}}});
  const ValueId relu = b.add("Relu", {gemm});
  const ValueId sum = b.add("Add", {weight({5}, "sum.b"), b.add("MatMul", {relu, weight({8, 5}, "sum.w")})});
  s.layers = {conv, gemm, sum};
  s.graph.add_output(sum, "y");
  return s;
}

std::vector<Tensor> results(const Small& s, const Tensor& x) {
  std::vector<Tensor> out(s.layers.size());
  const std::vector<Tensor> inputs{x};
  interpret(s.graph, inputs, nullptr, {}, [&](NodeId id, std::vector<Tensor>& values) {
    for (size_t i = 0; i < s.layers.size(); ++i) {
      if (s.graph.node(id).outputs[0] == s.layers[i]) out[i] = values[0].clone();
    }
  });
  return out;
}

// Mean square, and the largest mean of a channel (axis 1).
std::pair<double, double> moments(const Tensor& y) {
  const auto channels = static_cast<size_t>(y.shape()[1]);
  const auto inner = static_cast<size_t>(y.shape().elements(2, y.shape().rank()));
  std::vector<double> mean(channels);
  double squares = 0;
  for (size_t i = 0; i < y.data<float>().size(); ++i) {
    const double value = static_cast<double>(y.data<float>()[i]);
    mean[i / inner % channels] += value;
    squares += value * value;
  }
  double largest = 0;
  const double count = static_cast<double>(y.elements());
  for (const double each : mean) largest = std::max(largest, std::abs(each) * static_cast<double>(channels) / count);
  return {squares / count, largest};
}

TEST(FirstWeights, ChannelsGetAMeanOfZero) {
  Small s = small_network();
  const Tensor x = pictures();
  const std::vector<Tensor> before = results(s, x);
  EXPECT_GT(moments(before[0]).second, 1);
  const std::vector<Tensor> inputs{x};
  centre_layers(s.graph, s.weights, inputs);
  const std::vector<Tensor> after = results(s, x);
  for (size_t i = 0; i < after.size(); ++i) {
    const auto [squares, mean] = moments(after[i]);
    EXPECT_LT(mean, 1e-4 * std::sqrt(squares)) << i;
    EXPECT_GT(squares, 0) << i;
  }
  // The first layer's input did not change, so its mean square is what it was.
  EXPECT_NEAR(moments(after[0]).first, moments(before[0]).first, 1e-3 * moments(before[0]).first);
}

TEST(FirstWeights, OtherWeightsStay) {
  Small s = small_network();
  std::erase_if(s.weights, [](const auto& each) { return each.second == "gemm.b"; });
  std::map<ValueId, Tensor> before;
  for (int i = 0; i < s.graph.value_count(); ++i) {
    const Value& v = s.graph.value(ValueId{i});
    if (v.kind == ValueKind::constant && !s.weights.contains(ValueId{i})) before[ValueId{i}] = v.constant.clone();
  }
  const std::vector<Tensor> inputs{pictures()};
  centre_layers(s.graph, s.weights, inputs);
  for (const auto& [id, tensor] : before) EXPECT_EQ(distance(tensor, s.graph.value(id).constant), 0);
}

TEST(FirstWeights, ALayerThatDoesNotVaryIsLeftAlone) {
  Small s = small_network();
  Tensor same(DType::f32, {6, 3, 5, 7});
  std::ranges::fill(same.data<float>(), 2.0F);
  const Tensor before = results(s, same)[0];
  const std::vector<Tensor> inputs{same};
  centre_layers(s.graph, s.weights, inputs);
  EXPECT_EQ(distance(before, results(s, same)[0]), 0);
}

}  // namespace
}  // namespace sparkpilot::train

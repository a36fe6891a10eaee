// Last layers in units of their targets: the same function, other weights.
#include "train/output_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ir/infer.h"
#include "ir/interpret.h"
#include "passes/test_graph.h"
#include "route/contract/outputs.h"
#include "sparkpilot/builder.h"

namespace sparkpilot::train {
namespace {

using testing::distance;
using testing::random_tensor;

struct Net {
  Graph graph;
  std::map<ValueId, std::string> weights;
};

// Gemm with transB and two things added, MatMul and Add, and a layer that is not trained, behind Concat.
Net net() {
  Net out;
  out.graph.opsets[""] = 26;
  Builder b(out.graph);
  const auto weight = [&](const Shape& shape, const std::string& name, uint64_t seed, bool trained = true) {
    const ValueId id = b.constant(random_tensor(shape, seed), name);
    if (trained) out.weights[id] = name;
    return id;
  };
  const ValueId x = b.input("x", DType::f32, {3, 5});
  const ValueId gemm = b.add("Gemm", {x, weight({4, 5}, "first.weight", 1), weight({4}, "first.bias", 2)},
                             {{"transB", int64_t{1}}}, "first");
  const ValueId added = b.add("Add", {b.add("MatMul", {x, weight({5, 4}, "beside.weight", 7)}), gemm});
  const ValueId first = b.add("Add", {b.add("MatMul", {x, weight({5, 4}, "above.weight", 8)}), added});
  const ValueId second =
      b.add("Add", {b.add("MatMul", {x, weight({5, 3}, "second.weight", 3)}), weight({3}, "second.bias", 4)});
  const ValueId third =
      b.add("Gemm", {x, weight({5, 2}, "third.weight", 5, false), weight({2}, "third.bias", 6, false)});
  const ValueId all = b.add("Concat", {first, second, third}, {{"axis", int64_t{-1}}});
  b.output(b.add("Cast", {all}, {{"to", onnx_code(DType::f16)}}), "y");
  return out;
}

OutputUnits units() {
  OutputUnits out;
  for (int i = 0; i < 9; ++i) {
    out.deviation.push_back(0.5f + static_cast<float>(i) * 7);
    out.mean.push_back(static_cast<float>(20 - 6 * i));
  }
  return out;
}

TEST(OutputScale, KeepsTheFunctionAndGivesTheWeightsBack) {
  Net n = net();
  const std::vector<Tensor> inputs{random_tensor({3, 5}, 9)};
  const Tensor before = interpret(n.graph, inputs)[0];
  const Graph original = n.graph;
  const std::vector<ScaledLayer> layers = scale_outputs(n.graph, units(), n.weights, "net/", false);
  infer(n.graph);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_LE(distance(interpret(n.graph, inputs)[0], before), 1e-3);  // f16
  for (const ScaledLayer& layer : layers) {
    EXPECT_TRUE(layer.scale.starts_with("net/"));
    const auto named = [](const Graph& graph, const std::string& name) {
      for (int i = 0; i < graph.value_count(); ++i) {
        if (graph.value(ValueId{i}).name == name) return graph.value(ValueId{i}).constant;
      }
      return Tensor();
    };
    const Tensor scale = named(n.graph, layer.scale), mean = named(n.graph, layer.mean);
    const Tensor weight = unscaled_weight(named(n.graph, layer.weight), scale, layer.transposed);
    EXPECT_GT(distance(named(n.graph, layer.weight), named(original, layer.weight)), 0.1);
    EXPECT_LE(distance(weight, named(original, layer.weight)), 1e-6);
    EXPECT_LE(distance(unscaled_bias(named(n.graph, layer.bias), scale, mean), named(original, layer.bias)), 1e-5);
  }
}

TEST(OutputScale, BeginsAtTheMeansIfAsked) {
  Net n = net();
  scale_outputs(n.graph, units(), n.weights, "", true);
  infer(n.graph);
  const Tensor y = convert(interpret(n.graph, std::vector<Tensor>{Tensor::zeros(DType::f32, {3, 5})})[0], DType::f32);
  for (int64_t k = 0; k < 7; ++k)
    EXPECT_NEAR(y.data<float>()[static_cast<size_t>(k)], units().mean[static_cast<size_t>(k)], 0.02);
}

TEST(OutputScale, ImagesCountFromTheirMean) {
  Graph graph;
  graph.opsets[""] = 26;
  Builder b(graph);
  const ValueId image =
      b.add("Cast",
            {b.add("Concat", {b.input("road", DType::u8, {1, 2, 6, 5}), b.input("wide", DType::u8, {1, 1, 6, 5})},
                   {{"axis", int64_t{1}}})},
            {{"to", onnx_code(DType::f32)}});
  const ValueId w = b.constant(random_tensor({4, 3, 3, 3}, 1, DType::f32, 0.01), "w"),
                v = b.constant(random_tensor({4}, 2), "v");
  b.output(b.add("Conv", {image, w, v}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}}), "y");
  std::vector<Tensor> inputs;
  for (const int64_t channels : {2, 1}) {
    Tensor bytes(DType::u8, {1, channels, 6, 5});
    Random random(static_cast<uint64_t>(channels));
    for (uint8_t& x : bytes.data<uint8_t>()) x = static_cast<uint8_t>(random.integer(0, 255));
    inputs.push_back(bytes);
  }
  const Tensor before = interpret(graph, inputs)[0], weight = *graph.constant(w), bias = *graph.constant(v);
  const std::vector<ImageLayer> layers = scale_images(graph, {{w, "w"}, {v, "v"}});
  infer(graph);
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_LE(distance(interpret(graph, inputs)[0], before), 1e-5);  // at the border, too
  EXPECT_GT(distance(*graph.constant(w), weight), 10);
  const auto [back, moved] = unscaled_image_layer(*graph.constant(w), *graph.constant(v));
  EXPECT_LE(distance(back, weight), 1e-6);
  EXPECT_LE(distance(moved, bias), 1e-5);
  EXPECT_TRUE(scale_images(graph, {{w, "w"}}).empty());
}

// Poses that are normal numbers around 3 with deviation 2; logits beside them.
class Poses final : public Samples {
 public:
  std::span<const Field> fields() const override { return fields_; }
  int64_t size() const override { return 1000; }
  void read(int64_t index, std::span<std::byte* const> to) const override {
    Random random(static_cast<uint64_t>(index));
    float values[20] = {};
    for (int i = 0; i < 6; ++i) values[i] = i == 5 ? 1.0f : static_cast<float>(3 + 2 * random.normal());
    for (int i = 12; i < 20; ++i) values[i] = 5;
    std::memcpy(to[0], values, sizeof values);
  }

 private:
  std::vector<Field> fields_{{"teacher.vision", DType::f32, {20}}};
};

TEST(OutputScale, UnitsAreThoseOfTheTargets) {
  const OutputSlices slices{{"pose", {0, 12, {}}}, {"lane_lines_prob", {12, 20, {}}}};
  const OutputUnits units = output_units(Poses(), "teacher.vision", slices, 500);
  ASSERT_EQ(units.mean.size(), 20u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(units.mean[i], 3, 0.4);
    EXPECT_NEAR(units.deviation[i], 2, 0.3);
    EXPECT_NEAR(units.mean[i + 6], std::log(units.deviation[i]), 1e-6);
    EXPECT_EQ(units.deviation[i + 6], 1);
  }
  EXPECT_EQ(units.deviation[5], 0.01f);  // does not vary
  for (size_t i = 12; i < 20; ++i) {
    EXPECT_EQ(units.mean[i], 0);
    EXPECT_EQ(units.deviation[i], 1);
  }
  EXPECT_EQ(units.log_scales, (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
}

}  // namespace
}  // namespace sparkpilot::train

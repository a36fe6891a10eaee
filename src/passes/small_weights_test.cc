#include "passes/small_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "passes/test_graph.h"
#include "tensor/small_floats.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::distance;
using testing::Net;
using testing::random_inputs;
using testing::random_tensor;
using testing::run_and_compare;

// The first layers; a head follows.
ValueId head(Net& n, ValueId x, int64_t columns) { return n.op("MatMul", {x, n.weight({columns, 3}, 99)}); }

// The graph in a precision, optimised, and how far it is from the graph whose weights were stored so and are
// dequantized when it runs.
struct Stored {
  Graph graph;
  double error = 0;
  double from_f32 = 0;
};
Stored stored(const Graph& graph, Precision precision) {
  Graph plain = graph;
  infer(plain);
  const std::vector<Tensor> inputs = random_inputs(plain, 5);
  const std::vector<Tensor> floats = interpret(plain, inputs);
  store_small(plain, plan_small(plain, precision));
  infer(plain);
  const std::vector<Tensor> expected = interpret(plain, inputs, nullptr, "reference");
  Stored out{optimised(graph, {.precision = precision}), 0, 0};
  const std::vector<Tensor> got = interpret(out.graph, inputs);
  for (size_t i = 0; i < got.size(); ++i) {
    out.error = std::max(out.error, distance(got[i], expected[i]));
    out.from_f32 = std::max(out.from_f32, distance(got[i], floats[i]));
  }
  return out;
}

TEST(SmallWeights, ProductsReadThemPacked) {
  for (const int64_t rows : {1, 2, 9}) {
    Net n;
    ValueId x = n.input("x", {rows, 70});
    x = n.op("MatMul", {x, n.weight({70, 33}, 1)});
    x = n.op("Relu", {n.op("Add", {x, n.weight({33}, 2)})});
    const ValueId side = x;
    x = n.op("Gemm", {x, n.weight({48, 33}, 3), n.weight({48}, 4)}, {{"transB", int64_t{1}}});
    x = n.op("Gemm", {x, n.weight({48, 33}, 5)});
    x = n.op("Add", {x, side});
    n.output(head(n, x, 33));
    for (const Precision precision : {Precision::fp8, Precision::fp4}) {
      const Stored s = stored(n.graph, precision);
      EXPECT_EQ(count(s.graph, "sparkpilot::ScaledGemm"), 3) << rows;
      EXPECT_EQ(count(s.graph, "sparkpilot::Gemm"), 1);  // the head
      EXPECT_EQ(count(s.graph, "DequantizeLinear"), 0);
      EXPECT_EQ(s.graph.order().size(), 4u);  // bias, Relu and sum are in the products' epilogues
      EXPECT_LT(s.error, 1e-6);
      EXPECT_GT(s.from_f32, precision == Precision::fp8 ? 5e-3 : 2e-2);
      EXPECT_LT(s.from_f32, precision == Precision::fp8 ? 1e-1 : 4e-1);
    }
  }
}

TEST(SmallWeights, ConvolutionsGetFloatsOnce) {
  Net n;
  ValueId x = n.input("x", {1, 6, 9, 11});
  x = n.op("Conv", {x, n.weight({20, 6, 3, 3}, 1)});
  x = n.op("Relu", {x});
  x = n.op("Conv", {x, n.weight({20, 1, 3, 3}, 2)}, {{"group", int64_t{20}}});
  n.output(head(n, n.op("Flatten", {x}), 20 * 5 * 7));
  const Stored eight = stored(n.graph, Precision::fp8), four = stored(n.graph, Precision::fp4);
  EXPECT_EQ(count(eight.graph, "DequantizeLinear"), 0);
  EXPECT_LT(eight.error, 1e-6);
  EXPECT_EQ(four.from_f32, eight.from_f32);  // there is no product that could take 4 bits
}

TEST(SmallWeights, HeadsAndWeightsThatAreNotFiniteStay) {
  Net n;
  const ValueId x = n.input("x", {3, 20});
  Tensor bad = random_tensor(Shape{20, 20}, 1);
  bad.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  const ValueId y = n.op("Relu", {n.op("MatMul", {x, n.b.constant(bad)})});
  n.output(n.op("Add", {n.op("MatMul", {y, n.weight({20, 4}, 2)}), n.weight({4}, 3)}), "a");
  n.output(n.op("Softmax", {n.op("MatMul", {y, n.weight({20, 5}, 4)})}), "b");
  EXPECT_EQ(store_small(n.graph, plan_small(n.graph, Precision::fp4)), 0);
}

TEST(SmallWeights, WeightsThatAreNotFiniteAreNamed) {
  const std::array expected{"", R"("a0")", R"("a0", "a1")", R"("a0", "a1", "a2")", R"("a0", "a1", "a2" and 1 more)"};
  Net n;
  ValueId x = n.input("x", {3, 20});
  for (int i = 0; i < 5; ++i) {
    Tensor bad = random_tensor(Shape{20, 20}, 1);
    bad.data<float>()[7] = i % 2 ? std::numeric_limits<float>::infinity() : std::nanf("");
    EXPECT_EQ(not_finite_weights(n.graph), expected[static_cast<size_t>(i)]);
    x = n.op("MatMul", {n.op("MatMul", {x, n.weight({20, 20}, 2)}), n.b.constant(bad)});
    n.graph.node(n.graph.order().back()).name = fmt::format("a{}", i);
  }
}

// Observers are told how many layers a precision of less than 16 bits stored, under its name.
TEST(SmallWeights, ObserversSeeHowManyWereStored) {
  for (const bool head_alone : {false, true}) {
    Net n;
    ValueId x = n.input("x", {3, 20});
    if (!head_alone) x = n.op("Relu", {n.op("MatMul", {x, n.weight({20, 20}, 1)})});
    n.output(head(n, x, 20));
    std::vector<int> seen;
    run_passes(n.graph, {.precision = Precision::fp8, .observe = [&](std::string_view pass, const Graph&, int changes) {
                           if (pass == "fp8") seen.push_back(changes);
                         }});
    EXPECT_EQ(seen, std::vector<int>{head_alone ? 0 : 1});
  }
}

// A norm and a GELU written as single ops are on the way to an output as if they were one node.
TEST(SmallWeights, HeadsBehindWhatIsComputedFromThemAlone) {
  Net n;
  const ValueId x = n.input("x", {3, 20});
  const ValueId y = n.op("Relu", {n.op("MatMul", {x, n.weight({20, 20}, 1)})});
  const ValueId length = n.op("MatMul", {y, n.weight({20, 4}, 2)});
  n.output(n.op("Div", {length, n.op("Clip", {n.op("ReduceL2", {length, n.b.ints({-1})}), n.scalar(1e-6)})}), "a");
  const ValueId inside = n.op("MatMul", {y, n.weight({20, 5}, 4)});
  n.output(n.op("Mul", {inside, n.op("Sigmoid", {inside})}), "b");
  const ValueId one = n.op("MatMul", {y, n.weight({20, 6}, 5)}), other = n.op("MatMul", {y, n.weight({20, 6}, 6)});
  n.output(n.op("Mul", {one, other}), "c");  // of two products
  EXPECT_EQ(plan_small(n.graph, Precision::fp8).size(), 3u);
}

TEST(SmallWeights, SharedWeightsAreStoredOnceForEachAxis) {
  Net n;
  const ValueId x = n.input("x", {3, 32}), w = n.weight({32, 32}, 1);
  ValueId y = n.op("Relu", {n.op("MatMul", {x, w})});
  y = n.op("Relu", {n.op("MatMul", {y, w})});
  y = n.op("Relu", {n.op("Gemm", {y, w}, {{"transB", int64_t{1}}})});
  n.output(head(n, y, 32));
  EXPECT_LT(stored(n.graph, Precision::fp4).error, 1e-6);
  EXPECT_EQ(store_small(n.graph, plan_small(n.graph, Precision::fp8)), 3);
  EXPECT_EQ(count(n.graph, "DequantizeLinear"), 2);
}

// In a training each reader decodes for itself; on a GPU products of floats do, too, which on the CPU read packed
// weights.
TEST(SmallWeights, ATrainingDecodesForEachReader) {
  Net n;
  const ValueId x = n.input("x", {3, 32}), w = n.weight({32, 32}, 1);
  ValueId y = n.op("Relu", {n.op("MatMul", {x, w})});
  y = n.op("Relu", {n.op("MatMul", {y, w})});
  n.output(head(n, y, 32));
  infer(n.graph);
  for (const auto& [precision, blocks] : {std::pair(Precision::fp8, 0), {Precision::fp4, 1}}) {
    Graph small = n.graph;
    ASSERT_EQ(store_small(small, plan_small(small, precision)), 2);
    infer(small);
    const std::vector<Tensor> inputs = random_inputs(small, 5);
    const std::vector<Tensor> expected = interpret(small, inputs, nullptr, "reference");
    EXPECT_EQ(count(small, "DequantizeLinear"), 1 + blocks);
    for (const auto& [device, packed] : {std::pair(Device::cpu, 2), {Device::cuda, 0}}) {
      Graph lowered = small;
      lower(lowered, {.device = device, .training = true});
      EXPECT_EQ(count(lowered, "sparkpilot::ScaledGemm"), packed);
      EXPECT_EQ(count(lowered, "DequantizeLinear"), (2 - packed) * (1 + blocks));
      EXPECT_LT(distance(interpret(lowered, inputs)[0], expected[0]), 1e-5);
    }
  }
}

TEST(SmallWeights, ActivationsAreRoundedWhereTheyWereSeen) {
  Net n;
  const ValueId x = n.input("x", {5, 32});
  const ValueId y = n.op("Relu", {n.op("MatMul", {x, n.weight({32, 48}, 1)})});
  n.output(head(n, n.op("Relu", {n.op("MatMul", {y, n.weight({48, 32}, 2)})}), 32));
  infer(n.graph);
  Graph rounded = n.graph;
  const double largest = 3;  // beyond it they saturate
  EXPECT_EQ(store_small(rounded, plan_small(rounded, Precision::fp8), {{"x", largest}, {"other", 1}}), 2);
  infer(rounded);
  EXPECT_EQ(count(rounded, "QuantizeLinear"), 1);
  std::vector<Tensor> inputs = random_inputs(n.graph, 5);
  const std::vector<Tensor> got = interpret(rounded, inputs);
  // The same by hand: the graph without it on an input that has been rounded.
  Graph weights_alone = n.graph;
  store_small(weights_alone, plan_small(weights_alone, Precision::fp8));
  infer(weights_alone);
  const float scale = static_cast<float>(largest) / 448.0f;
  for (float& v : inputs[0].data<float>()) v = e4m3_to_float(float_to_e4m3(v / scale)) * scale;
  EXPECT_LT(distance(got[0], interpret(weights_alone, inputs)[0]), 1e-7);
  Graph lowered = optimised(n.graph, {.precision = Precision::fp8, .largest = {{"x", largest}}});
  EXPECT_LT(distance(interpret(lowered, random_inputs(n.graph, 5))[0], got[0]), 1e-6);
}

// What files may hold: the product of x [rows, 40] by weights behind DequantizeLinear.
Graph file(const Tensor& codes, const Tensor& scale, const Attributes& attrs, const Tensor& block_scales = {},
           const Tensor& zero = {}) {
  Net n;
  const ValueId x = n.input("x", {2, 40});
  ValueId steps = n.b.constant(scale);
  if (block_scales.present()) steps = n.op("DequantizeLinear", {n.b.constant(block_scales), steps});
  std::vector<ValueId> inputs{n.b.constant(codes), steps};
  if (zero.present()) inputs.push_back(n.b.constant(zero));
  n.output(n.op("MatMul", {x, n.op("DequantizeLinear", inputs, attrs)}));
  infer(n.graph);
  return std::move(n.graph);
}

int packed(Graph graph) {
  const auto passes = [](Graph& g) {
    run_passes(g);
    return count(g, "sparkpilot::ScaledGemm");
  };
  return run_and_compare(graph, passes);
}

TEST(SmallWeights, TakesWhatFilesHoldAndLeavesWhatKernelsDoNotCompute) {
  const Tensor w = random_tensor(Shape{40, 500}, 1);
  const Fp8Weights eight = to_fp8(w, 1);
  const Attributes columns{{"axis", int64_t{1}}}, rows{{"axis", int64_t{0}}};
  EXPECT_EQ(packed(file(eight.codes, eight.scales, columns)), 1);
  EXPECT_EQ(packed(file(eight.codes, eight.scales, {{"axis", int64_t{-1}}})), 1);
  EXPECT_EQ(packed(file(eight.codes, Tensor::scalar(0.1f), {})), 1);
  EXPECT_EQ(packed(file(eight.codes, eight.scales, columns, {}, Tensor::zeros(DType::f8e4m3fn, Shape{500}))), 1);
  EXPECT_EQ(packed(file(eight.codes, to_fp8(w, 0).scales, rows)), 0);  // a scale for each depth
  const Fp4Weights four = to_fp4(w, 0);
  const Attributes blocks{{"axis", int64_t{0}}, {"block_size", int64_t{16}}};
  EXPECT_EQ(packed(file(four.codes, four.scale, blocks, four.block_scales)), 1);
  const Tensor along = to_fp4(w, 1).block_scales;
  EXPECT_EQ(packed(file(four.codes, four.scale, {{"axis", int64_t{1}}, {"block_size", int64_t{16}}}, along)), 0);
  Tensor eights(DType::f8e4m3fn, Shape{5, 500});
  std::fill_n(static_cast<uint8_t*>(eights.raw()), 2500, uint8_t{0x38});
  EXPECT_EQ(packed(file(four.codes, four.scale, {{"axis", int64_t{0}}, {"block_size", int64_t{8}}}, eights)), 0);
  EXPECT_EQ(packed(file(convert(w, DType::f8e5m2), Tensor::scalar(0.1f), {})), 0);
  // Scales of 0, below 0, huge and not finite are computed as they are written, by floats.
  for (const float scale : {0.0f, -0.5f, 1e35f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_EQ(count(optimised(file(eight.codes, Tensor::scalar(scale), {})), "sparkpilot::ScaledGemm"), 0) << scale;
    EXPECT_EQ(
        count(optimised(file(four.codes, Tensor::scalar(scale), blocks, four.block_scales)), "sparkpilot::ScaledGemm"),
        0)
        << scale;
  }
  const Tensor nan = eight.codes.clone();
  static_cast<uint8_t*>(nan.raw())[17] = 0xff;
  EXPECT_EQ(count(optimised(file(nan, eight.scales, columns)), "sparkpilot::ScaledGemm"), 0);
  const Tensor bad = four.block_scales.clone();
  static_cast<uint8_t*>(bad.raw())[17] = 0x7f;
  EXPECT_EQ(count(optimised(file(four.codes, four.scale, blocks, bad)), "sparkpilot::ScaledGemm"), 0);
}

std::string refusal_of(const Tensor& codes, const Tensor& scale, const Attributes& attrs,
                       const Tensor& block_scales = {}) {
  try {
    file(codes, scale, attrs, block_scales);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(SmallWeights, ScalesThatDoNotFitAreRefused) {
  const Tensor w = random_tensor(Shape{40, 24}, 1);
  const Fp8Weights eight = to_fp8(w, 1);
  for (const Shape& shape : {Shape{23}, Shape{24, 1}, Shape{40}}) {
    const std::string said = refusal_of(eight.codes, Tensor::zeros(DType::f32, shape), {{"axis", int64_t{1}}});
    EXPECT_NE(said.find("scale has shape " + shape.str() + ", expected one number or [24] for axis 1 of [40,24]"),
              std::string::npos)
        << said;
  }
  const Fp4Weights four = to_fp4(w, 0);
  const auto blocks = [](int64_t size) { return Attributes{{"axis", int64_t{0}}, {"block_size", size}}; };
  for (const Shape& shape : {Shape{2, 24}, Shape{4, 24}, Shape{24, 3}}) {
    const std::string said = refusal_of(four.codes, four.scale, blocks(16), Tensor::zeros(DType::f8e4m3fn, shape));
    EXPECT_NE(said.find("scale has shape " + shape.str() + ", expected [3,24] for blocks of 16"), std::string::npos)
        << said;
  }
  for (const auto& [size, expected] : {std::pair(int64_t{-16}, "block_size is -16"),
                                       {0, "scale has shape [3,24], expected one number or [40] for axis 0 of [40,24]"},
                                       {8, "scale has shape [3,24], expected [5,24] for blocks of 8"},
                                       {32, "scale has shape [3,24], expected [2,24] for blocks of 32"}}) {
    const std::string said = refusal_of(four.codes, four.scale, blocks(size), four.block_scales);
    EXPECT_NE(said.find(expected), std::string::npos) << said;
  }
}

// The last rows have other scales than in blocks of 16; kernels of NVFP4 do not read them.
TEST(SmallWeights, BlocksOfAnotherSizeAreComputedAsWritten) {
  const Fp4Weights four = to_fp4(random_tensor(Shape{40, 24}, 1), 0);
  const auto in_blocks = [&](int64_t size) {
    return file(four.codes, four.scale, {{"axis", int64_t{0}}, {"block_size", size}}, four.block_scales);
  };
  const std::vector<Tensor> inputs = random_inputs(in_blocks(17), 7);
  const Graph lowered = optimised(in_blocks(17));
  EXPECT_EQ(count(lowered, "sparkpilot::ScaledGemm"), 0);
  const Tensor got = interpret(lowered, inputs)[0], floats = to_floats(four, 0);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 24; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < 40; ++k) {
        const auto scale = [&](int64_t block) {
          return load_element(DType::f8e4m3fn, four.block_scales.raw(), block * 24 + column);
        };
        const double weight = load_element(DType::f32, floats.raw(), k * 24 + column);
        const double moved = scale(k / 16) == 0 ? 0 : weight / scale(k / 16) * scale(k / 17);
        sum += load_element(DType::f32, inputs[0].raw(), row * 40 + k) * moved;
      }
      EXPECT_NEAR(load_element(DType::f32, got.raw(), row * 24 + column), sum, 1e-4);
    }
  }
}

TEST(SmallWeights, OddScalesOfWeightsGiveWhatTheyStandFor) {
  const Tensor w = random_tensor(Shape{40, 24}, 1);
  const Fp8Weights eight = to_fp8(w, 1);
  const Fp4Weights four = to_fp4(w, 0);
  const Attributes blocks{{"axis", int64_t{0}}, {"block_size", int64_t{16}}};
  const auto result = [&](bool in_4_bits, float scale, bool lowered) {
    Graph graph = in_4_bits ? file(four.codes, Tensor::scalar(scale), blocks, four.block_scales)
                            : file(eight.codes, Tensor::scalar(scale), {});
    const std::vector<Tensor> inputs = random_inputs(graph, 7);
    return interpret(lowered ? optimised(std::move(graph)) : std::move(graph), inputs)[0];
  };
  for (const bool in_4_bits : {false, true}) {
    const Tensor half = result(in_4_bits, 0.5f, false);
    for (const float scale : {0.0f, -0.5f, 1e33f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
      SCOPED_TRACE(fmt::format("{} bits, {}", in_4_bits ? 4 : 8, scale));
      const Tensor got = result(in_4_bits, scale, true);
      for (int64_t i = 0; i < got.elements(); ++i) {
        const double y = load_element(DType::f32, got.raw(), i), of_half = load_element(DType::f32, half.raw(), i);
        if (std::isfinite(scale)) {
          EXPECT_NEAR(y, 2 * static_cast<double>(scale) * of_half, 0.1 * std::fabs(static_cast<double>(scale)));
        } else {
          EXPECT_FALSE(std::isfinite(y));
        }
      }
    }
  }
}

// Of activations, on a CPU and on a GPU: where their step is no normal number above 0 no product multiplies codes.
TEST(SmallWeights, OddScalesOfActivationsGiveWhatTheyStandFor) {
  const Fp8Weights w = to_fp8(random_tensor(Shape{40, 24}, 1), 1);
  for (const float step : {0.0f, -0.01f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    SCOPED_TRACE(step);
    Net n;
    const ValueId x = n.input("x", {2, 40}), steps = n.b.constant(Tensor::scalar(step));
    const ValueId codes = n.op("QuantizeLinear", {x, steps}, {{"output_dtype", onnx_code(DType::f8e4m3fn)}});
    n.output(n.op("MatMul", {n.op("DequantizeLinear", {codes, steps}),
                             n.op("DequantizeLinear", {n.b.constant(w.codes), n.b.constant(w.scales)})}));
    infer(n.graph);
    const std::vector<Tensor> inputs = random_inputs(n.graph, 7);
    const Tensor expected = interpret(n.graph, inputs, nullptr, "reference")[0];
    for (const Device device : {Device::cpu, Device::cuda}) {
      const Graph lowered = optimised(n.graph, {}, {.device = device});
      for (const NodeId id : lowered.order()) {
        if (is_op(lowered.node(id), "sparkpilot::ScaledGemm")) {
          EXPECT_EQ(lowered.value(lowered.node(id).inputs[0]).dtype, DType::f32);
        }
      }
      const Tensor got = interpret(lowered, inputs)[0];
      for (int64_t i = 0; i < got.elements(); ++i) {
        const double a = load_element(DType::f32, got.raw(), i), b = load_element(DType::f32, expected.raw(), i);
        if (std::isfinite(step)) {
          EXPECT_NEAR(a, step == 0 ? 0 : b, 1e-4);
        } else {
          EXPECT_TRUE(std::isnan(a) && std::isnan(b)) << a << " " << b;
        }
      }
    }
  }
}

// On a GPU activations are f16.
TEST(SmallWeights, AGpuReadsThemPacked) {
  const Fp4Weights four = to_fp4(random_tensor(Shape{40, 500}, 1), 0);
  const Graph graph =
      file(four.codes, four.scale, {{"axis", int64_t{0}}, {"block_size", int64_t{16}}}, four.block_scales);
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::fp4}) {
    const Graph lowered = optimised(graph, {.precision = precision}, {.device = Device::cuda});
    EXPECT_EQ(count(lowered, "sparkpilot::ScaledGemm"), 1);
    EXPECT_EQ(count(lowered, "DequantizeLinear"), 0);
    for (const NodeId id : lowered.order()) {
      const Node& node = lowered.node(id);
      if (!is_op(node, "sparkpilot::ScaledGemm")) continue;
      EXPECT_EQ(lowered.value(node.inputs[0]).dtype, precision == Precision::fp32 ? DType::f32 : DType::f16);
    }
  }
}

// With a calibration a GPU's products read codes, which QuantizeLinear makes of f16 too; those of one row return f32.
TEST(SmallWeights, AGpuReadsCodesOfActivations) {
  for (const int64_t rows : {1, 5}) {
    Net n;
    const ValueId x = n.input("x", {rows, 32});
    ValueId y = n.op("Relu", {n.op("MatMul", {x, n.weight({32, 48}, 1)})});
    n.graph.value(y).name = "y";
    y = n.op("Relu", {n.op("MatMul", {y, n.weight({48, 32}, 2)})});
    n.output(head(n, y, 32));
    infer(n.graph);
    const PassOptions options{.precision = Precision::fp8, .largest = {{"x", 3}, {"y", 6}}};
    const Graph cpu = optimised(n.graph, options), gpu = optimised(n.graph, options, {.device = Device::cuda});
    EXPECT_EQ(count(gpu, "QuantizeLinear"), 2);
    EXPECT_EQ(count(gpu, "DequantizeLinear"), 0);
    EXPECT_EQ(count(gpu, "Cast"), rows == 1 ? 0 : 1);  // of the output
    for (const NodeId id : gpu.order()) {
      const Node& node = gpu.node(id);
      if (!is_op(node, "sparkpilot::ScaledGemm")) continue;
      EXPECT_EQ(gpu.value(node.inputs[0]).dtype, DType::f8e4m3fn);
      EXPECT_EQ(gpu.value(node.outputs[0]).dtype, rows == 1 ? DType::f32 : DType::f16);
    }
    const std::vector<Tensor> inputs = random_inputs(n.graph, 5);
    EXPECT_LT(distance(interpret(gpu, inputs)[0], interpret(cpu, inputs)[0]), 1e-2);  // the head's weights are f16
  }
}

// So do its convolutions of one group, bias and activation included; those of several read what was rounded, stored in
// their type at once.
TEST(SmallWeights, AGpusConvolutionsReadCodes) {
  for (const int64_t groups : {1, 2}) {
    Net n;
    const ValueId x = n.input("x", {2, 6, 9, 11});
    ValueId y = n.op("Conv", {x, n.weight({8, 6 / groups, 3, 3}, 1), n.weight({8}, 3)}, {{"group", groups}});
    y = n.op("Add", {n.op("Relu", {y}), y});
    n.output(head(n, n.op("Flatten", {n.op("Sigmoid", {y})}), 8 * 7 * 9));
    infer(n.graph);
    const PassOptions options{.precision = Precision::fp8, .largest = {{"x", 3}}};
    const Graph cpu = optimised(n.graph, options), gpu = optimised(n.graph, options, {.device = Device::cuda});
    EXPECT_EQ(count(cpu, "sparkpilot::ScaledConv"), 0);
    EXPECT_EQ(count(gpu, "QuantizeLinear"), 1);
    EXPECT_EQ(count(gpu, "sparkpilot::ScaledConv"), groups == 1 ? 1 : 0);
    EXPECT_EQ(count(gpu, "DequantizeLinear"), groups == 1 ? 0 : 1);
    for (const NodeId id : gpu.order()) {
      const Node& node = gpu.node(id);
      if (!is_op(node, "DequantizeLinear") && !is_op(node, "sparkpilot::ScaledConv")) continue;
      EXPECT_EQ(gpu.value(node.outputs[0]).dtype, DType::f16);
      EXPECT_EQ(node.attrs.integer("channels_last", 0), is_op(node, "sparkpilot::ScaledConv") ? 1 : 0);
    }
    const std::vector<Tensor> inputs = random_inputs(n.graph, 5);
    EXPECT_LT(distance(interpret(gpu, inputs)[0], interpret(cpu, inputs)[0]), 2e-3);
  }
}

// As a file has them: with one scale of the weights or one for each output channel, not for each input's.
TEST(SmallWeights, ConvolutionsOfAFileReadCodes) {
  const Fp8Weights w = to_fp8(random_tensor(Shape{12, 5, 3}, 1), 0);
  Tensor inputs_scales = Tensor::zeros(DType::f32, Shape{5}), tiny = Tensor::scalar(0x1p-99f);
  std::ranges::fill(inputs_scales.data<float>(), 0.01f);
  struct Stored {
    Tensor scales;
    int64_t axis;
    float step;
    int coded;
  };
  for (const auto& [scales, axis, step, coded] : {Stored{w.scales, 0, 0.02f, 1},
                                                  {w.scales, -3, 0.02f, 1},
                                                  {Tensor::scalar(0.1f), 1, 0.02f, 1},
                                                  {inputs_scales, 1, 0.02f, 0},
                                                  {convert(w.scales, DType::f16), 0, 0.02f, 0},
                                                  {tiny, 0, 0x1p-20f, 0}}) {
    Net n;
    const ValueId x = n.input("x", {3, 5, 14}), steps = n.b.constant(Tensor::scalar(step));
    const ValueId codes = n.op("QuantizeLinear", {x, steps}, {{"output_dtype", onnx_code(DType::f8e4m3fn)}});
    const ValueId image = n.op("DequantizeLinear", {codes, steps});
    const ValueId weights = n.op("DequantizeLinear", {n.b.constant(w.codes), n.b.constant(scales)},
                                 {{"axis", axis}, {"output_dtype", onnx_code(DType::f32)}});
    n.output(n.op("Relu", {n.op("Conv", {image, weights})}));
    infer(n.graph);
    const Graph gpu = optimised(n.graph, {}, {.device = Device::cuda});
    EXPECT_EQ(count(gpu, "sparkpilot::ScaledConv"), coded);
    const std::vector<Tensor> inputs = random_inputs(n.graph, 5);
    EXPECT_LT(distance(interpret(gpu, inputs)[0], interpret(n.graph, inputs, nullptr, "reference")[0]), 1e-6);
  }
}

// Where the weights are in NVFP4 a calibrated product reads blocks of NVFP4: rounded by a node before it on the CPU, by
// the product itself on a GPU; a convolution reads E4M3. Both give the same numbers.
TEST(SmallWeights, Fp4RoundsActivationsThatWereSeen) {
  Net n;
  const ValueId x = n.input("x", {3, 40});
  const ValueId y = n.op("Relu", {n.op("MatMul", {x, n.weight({40, 24}, 1)})});
  n.output(head(n, n.op("MatMul", {y, n.weight({24, 20}, 2)}), 20));
  infer(n.graph);
  const PassOptions options{.precision = Precision::fp4, .largest = {{"x", 2.5}}};
  const Graph cpu = optimised(n.graph, options), gpu = optimised(n.graph, options, {.device = Device::cuda});
  EXPECT_EQ(count(cpu, "sparkpilot::RoundToNvfp4"), 1);
  EXPECT_EQ(count(gpu, "sparkpilot::RoundToNvfp4"), 0);
  EXPECT_EQ(
      count(optimised(n.graph, {.precision = Precision::fp8, .largest = options.largest}), "sparkpilot::RoundToNvfp4"),
      0);
  int rounding = 0;
  for (const NodeId id : gpu.order()) rounding += gpu.node(id).attrs.has("a_scale");
  EXPECT_EQ(rounding, 1);
  const std::vector<Tensor> inputs = random_inputs(n.graph, 5);
  const Tensor rounded = interpret(cpu, inputs)[0];
  EXPECT_LT(distance(interpret(gpu, inputs)[0], rounded), 1e-2);  // of f16 before the blocks
  const Tensor plain = interpret(optimised(n.graph, {.precision = Precision::fp4}), inputs)[0];
  EXPECT_GT(distance(rounded, plain), 2e-2);

  // By the definition: what was stored as a graph, with its input rounded by hand.
  std::vector<Tensor> by_hand{inputs[0].clone()};
  const float scale = fp4_scale(2.5f);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t first = 0; first < 40; first += 16) {
      const auto block = by_hand[0].data<float>().subspan(static_cast<size_t>(row * 40 + first),
                                                          static_cast<size_t>(std::min<int64_t>(16, 40 - first)));
      float largest = 0;
      for (const float v : block) largest = std::max(largest, std::fabs(v));
      const float step = e4m3_to_float(float_to_e4m3(largest / (6 * scale))) * scale;
      for (float& v : block) v = e2m1_to_float(float_to_e2m1(v / step)) * step;
    }
  }
  EXPECT_LT(distance(rounded, interpret(optimised(n.graph, {.precision = Precision::fp4}), by_hand)[0]), 1e-6);
}

// Scales of activations that are not one number, or would make the product's scale too small, are applied before it.
TEST(SmallWeights, OtherScalesOfActivationsAreAppliedFirst) {
  const Fp8Weights w = to_fp8(random_tensor(Shape{40, 20}, 1), 1);
  const Tensor many = Tensor::zeros(DType::f32, Shape{40});
  std::ranges::fill(many.data<float>(), 0.5f);
  for (const auto& [scale, axis, codes] : {std::tuple(Tensor::scalar(0.5f), int64_t{1}, 1),
                                           {many, int64_t{1}, 0},
                                           {Tensor::scalar(0x1p-99f), int64_t{1}, 0}}) {
    Net n;
    const ValueId x = n.input("x", {3, 40}), steps = n.b.constant(scale);
    const Attributes to_codes{{"output_dtype", onnx_code(DType::f8e4m3fn)}, {"axis", axis}};
    const ValueId rounded =
        n.op("DequantizeLinear", {n.op("QuantizeLinear", {x, steps}, to_codes), steps}, {{"axis", axis}});
    const ValueId weights =
        n.op("DequantizeLinear", {n.b.constant(w.codes), n.b.constant(w.scales)}, {{"axis", int64_t{1}}});
    n.output(n.op("MatMul", {rounded, weights}));
    infer(n.graph);
    const Graph gpu = optimised(n.graph, {}, {.device = Device::cuda});
    EXPECT_EQ(count(gpu, "sparkpilot::ScaledGemm"), 1);
    EXPECT_EQ(count(gpu, "DequantizeLinear"), 1 - codes);
    const std::vector<Tensor> inputs = random_inputs(n.graph, 5);
    EXPECT_LT(distance(interpret(gpu, inputs)[0], interpret(n.graph, inputs, nullptr, "reference")[0]), 1e-6);
  }
}

}  // namespace
}  // namespace sparkpilot

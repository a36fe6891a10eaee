// Quantized graphs before and after they run in integers: equal to within one step of the output's scale.
#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using namespace testing;  // NOLINT: the helpers of these tests

struct QuantizedNet : Net {
  ValueId scale(float v) { return b.constant(Tensor::scalar(v)); }
  template <typename T>
  ValueId zero(T v) {
    return b.constant(Tensor::scalar(v));
  }
  ValueId quantize(ValueId v, float s, uint8_t z) { return op("QuantizeLinear", {v, scale(s), zero(z)}); }
  ValueId dequantize(ValueId v, float s, uint8_t z) { return op("DequantizeLinear", {v, scale(s), zero(z)}); }
  ValueId both(ValueId v, float s, uint8_t z) { return dequantize(quantize(v, s, z), s, z); }
  // Quantized weights with one scale for each index of the axis.
  ValueId weights(const Shape& shape, int64_t axis, uint64_t seed = 5) {
    Tensor bytes(DType::i8, shape);
    Random random(seed);
    for (int64_t i = 0; i < bytes.elements(); ++i) {
      store_element(DType::i8, bytes.raw(), i, static_cast<double>(random.integer(-127, 127)));
    }
    Tensor scales(DType::f32, Shape{shape[static_cast<int>(axis)]});
    for (size_t i = 0; i < static_cast<size_t>(scales.elements()); ++i) {
      scales.data<float>()[i] = 0.002f + 0.0003f * static_cast<float>(i % 5);
    }
    return op("DequantizeLinear",
              {b.constant(bytes), b.constant(scales), b.constant(Tensor::zeros(DType::i8, scales.shape()))},
              {{"axis", axis}});
  }
};

// The largest difference between the graph's f32 or byte outputs before and after the pass, and what changed.
struct Change {
  int changes;
  double difference;
};
Change run_pass(Graph& graph) {
  const std::vector<Tensor> inputs = random_inputs(graph, 7);
  const std::vector<Tensor> before = interpret(graph, inputs);
  Change change{fuse_quantized(graph), 0};
  infer(graph);
  const std::vector<Tensor> after = interpret(graph, inputs);
  for (size_t o = 0; o < before.size(); ++o) {
    EXPECT_EQ(before[o].dtype(), after[o].dtype());
    EXPECT_EQ(before[o].shape(), after[o].shape());
    for (int64_t i = 0; i < before[o].elements(); ++i) {
      const double d =
          load_element(before[o].dtype(), before[o].raw(), i) - load_element(after[o].dtype(), after[o].raw(), i);
      change.difference = std::max(change.difference, std::abs(d));
    }
  }
  return change;
}

// The fast kernels read channels last. Alone between Transposes it is still faster than by the reference.
TEST(FuseQuantized, ALoneConvolutionGetsChannelsLast) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {1, 6, 9, 7}), 0.02f, 120);
  const ValueId y = n.op("Conv", {x, n.weights({8, 6, 1, 1}, 0)});
  n.output(n.op("Tanh", {y}));
  run_pass(n.graph);
  ASSERT_EQ(count(n.graph, "sparkpilot::QConv"), 1);
  testing::run_and_compare(n.graph, keep_channels_last);
  for (const NodeId id : n.graph.order()) {
    const Node& node = n.graph.node(id);
    if (std::string_view(node.op->name) != "QConv") continue;
    EXPECT_EQ(node.attrs.integer("channels_last", 0), 1);
  }
}

TEST(FuseQuantized, ConvolutionWithClipBetweenBytes) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {1, 6, 9, 7}), 0.02f, 120);
  const ValueId y = n.op("Conv", {x, n.weights({8, 6, 3, 3}, 0), n.b.constant(random_tensor({8}, 3))},
                         {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"strides", std::vector<int64_t>{2, 2}}});
  n.output(n.quantize(n.op("Clip", {y, n.scalar(0), n.scalar(1.5)}), 0.01f, 3));
  EXPECT_LE(run_pass(n.graph).difference, 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::QConv"), 1);
  EXPECT_EQ(count(n.graph, "Clip") + count(n.graph, "Conv") + count(n.graph, "DequantizeLinear"), 0);
}

TEST(FuseQuantized, ProductsWithBiasesToFloats) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {5, 12}), 0.03f, 90);
  n.output(n.op("Gemm", {x, n.weights({7, 12}, 0), n.b.constant(random_tensor({7}, 3))}, {{"transB", int64_t{1}}}),
           "a");
  n.output(n.op("Add", {n.op("MatMul", {x, n.weights({12, 9}, 1)}), n.b.constant(random_tensor({9}, 4))}), "b");
  EXPECT_LE(run_pass(n.graph).difference, 1e-5);
  EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 2);
  EXPECT_EQ(count(n.graph, "Add"), 0);
}

TEST(FuseQuantized, SumsTablesAndWhatOnlyMoves) {
  QuantizedNet n;
  const ValueId a = n.both(n.input("a", {1, 4, 6, 6}), 0.02f, 120), b = n.both(n.input("b", {1, 4, 6, 6}), 0.05f, 7);
  const ValueId sum = n.both(n.op("Relu", {n.op("Add", {a, b})}), 0.03f, 0);
  n.output(n.quantize(n.op("Sigmoid", {sum}), 1.0f / 255, 0), "table");
  n.output(n.quantize(n.op("MaxPool", {sum}, {{"kernel_shape", std::vector<int64_t>{2, 2}}}), 0.03f, 0), "pool");
  const ValueId flat = n.op("Reshape", {n.op("Concat", {a, b}, {{"axis", int64_t{1}}}), n.b.ints({1, 288})});
  n.output(flat, "floats");
  n.output(n.quantize(n.op("Concat", {a, b}, {{"axis", int64_t{1}}}), 0.04f, 9), "concat");
  EXPECT_LE(run_pass(n.graph).difference, 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::QAdd"), 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::ByteTable"), 3);  // sigmoid and both sides of the concatenation
  EXPECT_EQ(count(n.graph, "Sigmoid"), 0);
  EXPECT_EQ(count(n.graph, "MaxPool"), 1);
}

// A quantized scalar can be an operand of a table; weights of one element stay weights.
TEST(FuseQuantized, NumbersOfBytesAreOperandsOfTables) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {1, 1, 6, 6}), 0.02f, 120);
  const auto number = [&](uint8_t v) { return n.dequantize(n.zero(v), 0.03f, 7); };
  n.output(n.quantize(n.op("Mul", {n.op("Add", {x, number(90)}), number(40)}), 0.05f, 100), "table");
  n.output(n.quantize(n.op("Conv", {x, n.weights({1, 1, 1, 1}, 0)}), 0.05f, 100), "conv");
  EXPECT_LE(run_pass(n.graph).difference, 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::ByteTable"), 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::QConv"), 1);
  EXPECT_EQ(count(n.graph, "Add") + count(n.graph, "Mul") + count(n.graph, "DequantizeLinear"), 0);
}

// PyTorch's slope of one number has as many dimensions as the image has behind the batch.
TEST(FuseQuantized, ASlopeOfOneNumberIsPartOfATable) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {1, 3, 4, 4}), 0.05f, 120);
  n.output(n.quantize(n.op("PRelu", {x, n.weight({1, 1, 1}, 3)}), 0.05f, 120));
  EXPECT_LE(run_pass(n.graph).difference, 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::ByteTable"), 1);
}

TEST(FuseQuantized, MeansOfBytes) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {2, 5, 6, 7}), 0.02f, 120);
  const ValueId pooled = n.both(n.op("AveragePool", {x},
                                     {{"kernel_shape", std::vector<int64_t>{3, 3}},
                                      {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                                      {"count_include_pad", int64_t{1}}}),
                                0.011f, 100);
  n.output(n.quantize(n.op("GlobalAveragePool", {pooled}), 0.003f, 128));
  n.output(n.op("AveragePool", {pooled}, {{"kernel_shape", std::vector<int64_t>{2, 2}}}), "floats");
  EXPECT_LE(run_pass(n.graph).difference, 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::QAveragePool"), 2);
  EXPECT_EQ(count(n.graph, "AveragePool"), 1);
}

TEST(FuseQuantized, ReluInTheSameBytesNarrowsTheRange) {
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {3, 12}), 0.03f, 90);
  const ValueId y = n.both(n.op("MatMul", {x, n.weights({12, 9}, 1)}), 0.01f, 100);
  n.output(n.quantize(n.op("Relu", {y}), 0.01f, 100));
  EXPECT_LE(run_pass(n.graph).difference, 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::ByteTable"), 0);
}

// Nothing quantizes them again by the same scale: the limits lie between two steps of the product's bytes.
TEST(FuseQuantized, LimitsBehindTheBytesAreThoseOfFloats) {
  for (const bool again : {false, true}) {
    QuantizedNet n;
    const ValueId x = n.both(n.input("x", {3, 12}), 0.03f, 90);
    const ValueId y = n.both(n.op("MatMul", {x, n.weights({12, 9}, 1)}), 0.0625f, 100);
    const ValueId clipped = n.op("Clip", {y, n.scalar(-0.1), n.scalar(0.08)});
    n.output(again ? n.quantize(clipped, 0.01f, 100) : clipped);
    EXPECT_EQ(run_pass(n.graph).difference, 0);
    EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 1);
  }
}

TEST(FuseQuantized, OperatorsOfIntegers) {
  QuantizedNet n;
  const ValueId x = n.input("x", {4, 12}, DType::f32);
  const std::vector<ValueId> q = n.b.add_many("DynamicQuantizeLinear", {x}, {}, 3);
  Tensor w(DType::u8, Shape{12, 5});
  for (int64_t i = 0; i < 60; ++i) store_element(DType::u8, w.raw(), i, static_cast<double>(i * 37 % 256));
  const ValueId weights = n.b.constant(w), middle = n.zero(uint8_t{128});
  n.output(n.op("MatMulInteger", {q[0], weights, q[2], middle}), "sums");
  n.output(n.op("QLinearMatMul", {q[0], n.scale(0.02f), n.zero(uint8_t{100}), weights, n.scale(0.01f), middle,
                                  n.scale(0.5f), n.zero(uint8_t{30})}),
           "bytes");
  EXPECT_EQ(run_pass(n.graph).difference, 0);
  EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 2);
}

// x_scale * w_scale / y_scale is 0.49999997 if it is rounded once, and 0.5 if it is rounded after each operation as the
// op does. Every odd byte of x then gives a tie.
TEST(FuseQuantized, TiesFallToTheSideOfTheOp) {
  QuantizedNet n;
  const ValueId x_scale = n.scale(0.0157999992f), w_scale = n.scale(0.00954f), y_scale = n.scale(0.000301463995f);
  const ValueId zero = n.zero(uint8_t{0}), x = n.quantize(n.input("x", {1, 1, 16, 16}), 0.01f, 128);
  const auto ones = [&](const Shape& shape) { return n.b.constant(Tensor::of<int8_t>(shape, {1})); };
  const ValueId weight_zero = n.zero(int8_t{0});
  n.output(n.op("QLinearConv", {x, x_scale, zero, ones({1, 1, 1, 1}), w_scale, weight_zero, y_scale, zero}), "conv");
  const ValueId rows = n.op("Reshape", {x, n.b.ints({256, 1})});
  n.output(n.op("QLinearMatMul", {rows, x_scale, zero, ones({1, 1}), w_scale, weight_zero, y_scale, zero}), "product");
  EXPECT_EQ(run_pass(n.graph).difference, 0);
  EXPECT_EQ(count(n.graph, "sparkpilot::QConv"), 1);
  EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 1);
}

TEST(FuseQuantized, LeavesWhatMakesNoSenseInFloats) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0f, -0.02f, 1e-42f, infinity, std::numeric_limits<float>::quiet_NaN()}) {
    QuantizedNet n;
    const ValueId x = n.dequantize(n.input("x", {5, 12}, DType::u8), bad, 90);
    n.output(n.op("MatMul", {x, n.weights({12, 9}, 1)}));
    fuse_quantized(n.graph);
    EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 0) << bad;
    EXPECT_EQ(count(n.graph, "MatMul"), 1) << bad;
  }
  // What is not fused: scales along the depth; weights whose difference to the zero point does not fit in a byte; a
  // scale computed at run time.
  QuantizedNet n;
  const ValueId x = n.both(n.input("x", {5, 12}), 0.03f, 90);
  n.output(n.op("MatMul", {x, n.weights({12, 12}, 0)}), "depth");
  Tensor wide(DType::u8, Shape{12, 3});
  for (int64_t i = 0; i < 36; ++i) store_element(DType::u8, wide.raw(), i, static_cast<double>(i * 7));
  n.output(n.op("MatMul", {x, n.dequantize(n.b.constant(wide), 0.1f, 3)}), "wide");
  const ValueId open = n.op("DequantizeLinear", {n.input("bytes", {5, 12}, DType::u8), n.input("scale", Shape{})});
  n.output(n.op("MatMul", {open, n.weights({12, 9}, 1)}), "open");
  const Change change = run_pass(n.graph);
  EXPECT_LE(change.difference, 1e-6);
  EXPECT_EQ(count(n.graph, "sparkpilot::QGemm"), 0);
  EXPECT_EQ(count(n.graph, "MatMul"), 3);
}

}  // namespace
}  // namespace sparkpilot

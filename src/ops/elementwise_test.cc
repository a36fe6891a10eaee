// Broadcasting on random shapes against plain index arithmetic, integer rules, casts, and the forms of old opsets.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ops/cpu/strides.h"

namespace sparkpilot {
namespace {

Tensor run(std::string_view op, std::vector<Tensor> inputs, Attributes attrs = {}, std::string_view kernel = {}) {
  Node node{.op = find_op("", op, 28), .name = "n", .inputs = {}, .outputs = {ValueId{0}}, .attrs = std::move(attrs)};
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs.push_back(ValueId{static_cast<int32_t>(i)});
  return evaluate(node, inputs, kernel)[0];
}

template <typename T>
std::vector<T> list(const Tensor& tensor) {
  const auto values = tensor.data<T>();
  return {values.begin(), values.end()};
}

Tensor random_tensor(Random& random, DType dtype, const Shape& shape) {
  Tensor out = Tensor::zeros(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const double x = random.normal() * 3;
    store_element(dtype, out.raw(), i, dtype == DType::boolean ? x > 0 : is_float(dtype) ? x : std::nearbyint(x));
  }
  return out;
}

// A random output shape, and operands that broadcast to it: some axes of one element, some leading axes left out.
Shape random_shape(Random& random) {
  std::vector<int64_t> dims(static_cast<size_t>(random.integer(0, 5)));
  for (int64_t& d : dims) d = random.integer(0, 9) == 0 ? 1 : random.integer(1, 9);
  if (random.integer(0, 19) == 0 && !dims.empty()) dims.back() = 0;
  return Shape(dims);
}
Shape random_operand(Random& random, const Shape& full) {
  const auto skip = random.integer(0, 3) == 0 ? random.integer(0, full.rank()) : 0;
  std::vector<int64_t> dims(full.begin() + skip, full.end());
  for (int64_t& d : dims) {
    if (random.integer(0, 2) == 0) d = 1;
  }
  return Shape(dims);
}

double element(const Tensor& t, const Shape& full, int64_t i) {
  return load_element(t.dtype(), t.raw(), offset_of(i, full, broadcast_strides(t.shape(), full)));
}

TEST(Elementwise, BroadcastsLikeIndexArithmetic) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    const ThreadScope threads(1 + round % 3);
    const Shape full = random_shape(random);
    const DType dtype = std::array{DType::f32, DType::f16, DType::i32, DType::f64}[static_cast<size_t>(round % 4)];
    const Tensor a = random_tensor(random, dtype, random_operand(random, full));
    const Tensor b = random_tensor(random, dtype, random_operand(random, full));
    const Shape shape = broadcast(a.shape(), b.shape());
    for (const std::string_view kernel : {"simd", "reference"}) {
      if (kernel == "simd" && (dtype == DType::i32 || dtype == DType::f64)) continue;
      const Tensor y = run("Sub", {a, b}, {}, kernel);
      ASSERT_EQ(y.shape(), shape);
      for (int64_t i = 0; i < y.elements(); ++i) {
        const double want = element(a, shape, i) - element(b, shape, i);
        const double got = load_element(dtype, y.raw(), i);
        ASSERT_NEAR(got, want, dtype == DType::f16 ? 0.01 : 1e-6)
            << a.shape().str() << " - " << b.shape().str() << " by " << kernel << " at " << i;
      }
    }
  }
}

TEST(Elementwise, ThreeOperandsBroadcastLikeIndexArithmetic) {
  Random random(12);
  for (int round = 0; round < 200; ++round) {
    const Shape full = random_shape(random);
    const Tensor c = random_tensor(random, DType::boolean, random_operand(random, full));
    const Tensor a = random_tensor(random, DType::f32, random_operand(random, full));
    const Tensor b = random_tensor(random, DType::f32, random_operand(random, full));
    const Tensor where = run("Where", {c, a, b});
    const Shape shape = broadcast(broadcast(c.shape(), a.shape()), b.shape());
    ASSERT_EQ(where.shape(), shape);
    for (int64_t i = 0; i < where.elements(); ++i) {
      const double want = element(c, shape, i) != 0 ? element(a, shape, i) : element(b, shape, i);
      ASSERT_EQ(where.data<float>()[static_cast<size_t>(i)], want);
    }
    const Tensor d = random_tensor(random, DType::f32, random_operand(random, full));
    const Shape all = broadcast(broadcast(a.shape(), b.shape()), d.shape());
    for (const std::string_view kernel : {"simd", "reference"}) {
      const Tensor largest = run("Max", {a, b, d}, {}, kernel);
      for (int64_t i = 0; i < largest.elements(); ++i) {
        const double want = std::max({element(a, all, i), element(b, all, i), element(d, all, i)});
        ASSERT_EQ(largest.data<float>()[static_cast<size_t>(i)], want);
      }
    }
  }
}

// An output that takes the place of one operand must not disturb the others.
TEST(Elementwise, WritesOverAnInputOfTheSameShape) {
  Random random(13);
  const Shape shape{3, 301};
  const Tensor row = random_tensor(random, DType::f32, Shape{301}), last = random_tensor(random, DType::f32, shape);
  const OpDef* op = find_op("", "Sum", 13);
  Tensor overwritten = last.clone();
  Node node{.op = op, .name = "n", .inputs = {{0}, {1}, {2}}, .outputs = {ValueId{3}}, .attrs = {}};
  const TensorType in[] = {{DType::f32, row.shape()}, {DType::f32, shape}, {DType::f32, shape}};
  const TensorType out[] = {{DType::f32, shape}};
  const Problem problem{.node = &node, .inputs = in, .outputs = out, .constants = {}};
  for (const Kernel& kernel : op->cpu) {
    const Tensor want = run("Sum", {row, last, last}, {}, kernel.name);
    overwritten = last.clone();
    const auto state = kernel.prepare(problem);
    const ConstView inputs[] = {row.view(), last.view(), overwritten.view()};
    View outputs[] = {overwritten.view()};
    kernel.run({.node = &node, .inputs = inputs, .outputs = outputs, .state = state.get()});
    EXPECT_EQ(list<float>(overwritten), list<float>(want)) << kernel.name;
  }
}

TEST(Elementwise, IntegersWrapAndNeverTrap) {
  constexpr int32_t kLow = std::numeric_limits<int32_t>::min(), kHigh = std::numeric_limits<int32_t>::max();
  const Tensor a = Tensor::of<int32_t>({6}, {7, -7, kLow, 5, kHigh, kLow});
  const Tensor b = Tensor::of<int32_t>({6}, {-2, 2, -1, 0, 2, 1});
  EXPECT_EQ(list<int32_t>(run("Div", {a, b})), (std::vector<int32_t>{-3, -3, kLow, 0, kHigh / 2, kLow}));
  EXPECT_EQ(list<int32_t>(run("Mod", {a, b})), (std::vector<int32_t>{-1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(list<int32_t>(run("Mod", {a, b}, {{"fmod", int64_t{1}}})), (std::vector<int32_t>{1, -1, 0, 0, 1, 0}));
  EXPECT_EQ(list<int32_t>(run("Add", {a, b}))[4], kLow + 1);
  EXPECT_EQ(list<int32_t>(run("Sub", {a, b}))[5], kHigh);
  EXPECT_EQ(list<int32_t>(run("Mul", {a, b}))[4], -2);
  EXPECT_EQ(list<int32_t>(run("Neg", {a}))[2], kLow);
  EXPECT_EQ(list<int32_t>(run("Abs", {a}))[2], kLow);
  const Tensor bytes = Tensor::of<uint8_t>({3}, {200, 3, 255});
  EXPECT_EQ(list<uint8_t>(run("Add", {bytes, bytes})), (std::vector<uint8_t>{144, 6, 254}));
  EXPECT_EQ(list<uint8_t>(run("Neg", {bytes}))[1], 253);
  const Tensor base = Tensor::of<int64_t>({6}, {2, 3, -1, 0, 5, 2}),
               power = Tensor::of<int64_t>({6}, {62, 4, -3, -1, -1, 64});
  EXPECT_EQ(list<int64_t>(run("Pow", {base, power})), (std::vector<int64_t>{int64_t{1} << 62, 81, -1, 0, 0, 0}));
  const Tensor floats = Tensor::of<float>({3}, {0.5f, 2.0f, NAN});
  EXPECT_EQ(list<int32_t>(run("Pow", {Tensor::of<int32_t>({3}, {16, 9, 2}), floats})),
            (std::vector<int32_t>{4, 81, 0}));
}

TEST(Elementwise, ModuloOfFloatsFollowsTheStandardsTable) {
  const float inf = INFINITY;
  const Tensor a = Tensor::of<float>({8}, {5, -5, 5, -5, 0, 1, -1, inf});
  const Tensor b = Tensor::of<float>({8}, {3, 3, -3, -3, -2, inf, inf, 2});
  const auto y = list<float>(run("Mod", {a, b}));
  EXPECT_EQ((std::vector<float>(y.begin(), y.begin() + 7)), (std::vector<float>{2, 1, -1, -2, 0, 1, inf}));
  EXPECT_TRUE(std::signbit(y[4]));
  EXPECT_TRUE(std::isnan(y[7]));
}

TEST(Elementwise, CastsFollowTheStandardsTable) {
  const auto cast = [](const Tensor& x, DType to, Attributes attrs = {}) {
    attrs.set("to", onnx_code(to));
    return run("Cast", {x}, attrs);
  };
  const Tensor x = Tensor::of<float>({6}, {-1.9f, 2.9f, 300, NAN, INFINITY, -INFINITY});
  EXPECT_EQ(list<int8_t>(cast(x, DType::i8)), (std::vector<int8_t>{-1, 2, 127, 0, 127, -128}));
  EXPECT_EQ(list<bool>(cast(x, DType::boolean)), (std::vector<bool>{true, true, true, true, true, true}));
  EXPECT_EQ(list<int8_t>(cast(Tensor::of<int16_t>({2}, {200, -200}), DType::i8)), (std::vector<int8_t>{-56, 56}));
  EXPECT_EQ(list<float>(cast(Tensor::of<bool>({2}, {true, false}), DType::f32)), (std::vector<float>{1, 0}));
  // 2^60 + 7 has more digits than a double: the low four bits must survive.
  const Tensor packed = cast(Tensor::of<int64_t>({2}, {(int64_t{1} << 60) + 7, -3}), DType::i4);
  EXPECT_EQ(load_element(DType::i4, packed.raw(), 0), 7);
  EXPECT_EQ(load_element(DType::i4, packed.raw(), 1), -3);
  const Tensor powers = Tensor::of<float>({4}, {3, 5, 0, INFINITY});
  const auto e8m0 = [&](const char* mode, int64_t saturate) {
    const Tensor y = cast(powers, DType::f8e8m0, {{"round_mode", std::string(mode)}, {"saturate", saturate}});
    const auto* codes = static_cast<const uint8_t*>(y.raw());
    return std::vector<int>(codes, codes + 4);
  };
  EXPECT_EQ(e8m0("up", 1), (std::vector<int>{129, 130, 0, 254}));
  EXPECT_EQ(e8m0("down", 1), (std::vector<int>{128, 129, 0, 254}));
  EXPECT_EQ(e8m0("nearest", 0), (std::vector<int>{129, 129, 255, 255}));
}

// Ops of opset 6 on a graph of their own.
TEST(Elementwise, OldVersionsExpandToTheNewest) {
  Graph graph;
  Builder b(graph, "", 6);
  const ValueId x = graph.add_constant(Tensor::of<float>({1, 2, 3}, {0, 1, 2, 3, 4, 5}));
  const ValueId c = graph.add_constant(Tensor::of<float>({2}, {10, 20}));
  const ValueId last = graph.add_constant(Tensor::of<float>({3}, {1, 2, 3}));
  graph.add_output(b.add("Add", {x, c}, {{"axis", int64_t{1}}, {"broadcast", int64_t{1}}}), "channels");
  graph.add_output(b.add("Mul", {x, last}, {{"broadcast", int64_t{1}}}), "suffix");
  graph.add_output(b.add("Less", {x, c}, {{"axis", int64_t{-2}}, {"broadcast", int64_t{1}}}), "less");
  graph.add_output(b.add("Clip", {x}, {{"max", 2.5f}}), "clip");
  graph.add_output(b.add("PRelu", {b.add("Neg", {x}), c}), "prelu");
  graph.add_output(b.add("ReduceSum", {x}, {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}}), "sum");
  graph.add_output(b.add("Softmax", {b.add("Sub", {x, x})}), "softmax");
  const std::vector<Tensor> y = interpret(graph, {});
  EXPECT_EQ(list<float>(y[0]), (std::vector<float>{10, 11, 12, 23, 24, 25}));
  EXPECT_EQ(list<float>(y[1]), (std::vector<float>{0, 2, 6, 3, 8, 15}));
  EXPECT_EQ(list<bool>(y[2]), (std::vector<bool>(6, true)));
  EXPECT_EQ(list<float>(y[3]), (std::vector<float>{0, 1, 2, 2.5f, 2.5f, 2.5f}));
  EXPECT_EQ(list<float>(y[4]), (std::vector<float>{0, -10, -20, -60, -80, -100}));
  EXPECT_EQ(list<float>(y[5]), (std::vector<float>{3, 12}));
  // A matrix of one row: the sum runs over both axes.
  EXPECT_NEAR(y[6].data<float>()[0], 1.0 / 6, 1e-6);
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  const Tensor f = Tensor::zeros(DType::f32, {2, 3}), i = Tensor::zeros(DType::i32, {2, 3});
  EXPECT_THROW(run("Add", {f, i}), Error);
  EXPECT_THROW(run("Add", {f, Tensor::zeros(DType::f32, {2})}), Error);
  EXPECT_THROW(run("Sqrt", {i}), Error);
  EXPECT_THROW(run("And", {f, f}), Error);
  EXPECT_THROW(run("Where", {f, f, f}), Error);
  EXPECT_THROW(run("Where", {Tensor::zeros(DType::boolean, {}), f, i}), Error);
  EXPECT_THROW(run("Clip", {f, f}), Error);
  EXPECT_THROW(run("Gelu", {f}, {{"approximate", std::string("fast")}}), Error);
  EXPECT_THROW(run("BitShift", {i, i}, {{"direction", std::string("UP")}}), Error);
  EXPECT_THROW(run("BitCast", {f}, {{"to", onnx_code(DType::i16)}}), Error);
  EXPECT_THROW(run("Cast", {f}, {{"to", int64_t{8}}}), Error);
  EXPECT_THROW(run("Cast", {f}, {{"to", int64_t{1} << 40}}), Error);
  EXPECT_THROW(run("Cast", {f}, {{"to", onnx_code(DType::f8e8m0)}, {"round_mode", std::string("odd")}}), Error);
  EXPECT_THROW(run("CumSum", {f, Tensor::ints({2})}), Error);
  EXPECT_THROW(run("CumSum", {f, Tensor::ints({0, 1})}), Error);
  EXPECT_THROW(run("ArgMax", {f}, {{"axis", int64_t{2}}}), Error);
  EXPECT_THROW(run("ArgMax", {Tensor::zeros(DType::f32, {0, 3})}), Error);
  EXPECT_THROW(run("Softmax", {f}, {{"axis", int64_t{-3}}}), Error);
  EXPECT_THROW(run("PRelu", {Tensor::zeros(DType::f32, {3}), f}), Error);
}

}  // namespace
}  // namespace sparkpilot

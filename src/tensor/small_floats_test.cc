#include "tensor/small_floats.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

// The magnitudes of a format by code, written down from its definition.
std::vector<double> magnitudes(int mantissa_bits, int bias, int codes) {
  std::vector<double> out;
  for (int code = 0; code < codes; ++code) {
    const int e = code >> mantissa_bits, m = code & ((1 << mantissa_bits) - 1);
    const double fraction = std::ldexp(m, -mantissa_bits);
    out.push_back(e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias));
  }
  return out;
}
std::vector<double> e4m3() { return magnitudes(3, 7, 127); }
std::vector<double> e2m1() { return magnitudes(1, 1, 8); }

// The nearest code, of two equally near ones the even one; the last one beyond the format's range.
int nearest(const std::vector<double>& all, double magnitude) {
  if (magnitude >= all.back()) return static_cast<int>(all.size()) - 1;
  size_t best = 0;
  for (size_t code = 1; code < all.size(); ++code) {
    const double near = std::fabs(all[code] - magnitude), was = std::fabs(all[best] - magnitude);
    if (near < was || (near == was && code % 2 == 0)) best = code;
  }
  return static_cast<int>(best);
}

// Every number of the format, every middle between two, and what is next to them; numbers of every size.
std::vector<float> probes(const std::vector<double>& all) {
  std::vector<float> out{0, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  for (size_t code = 0; code + 1 < all.size(); ++code) {
    for (const double v : {all[code], (all[code] + all[code + 1]) / 2}) {
      const auto f = static_cast<float>(v);
      out.insert(out.end(), {f, std::nextafter(f, 0.0f), std::nextafter(f, 1e9f)});
    }
  }
  out.insert(out.end(), {static_cast<float>(all.back()), 464.0f, std::nextafter(464.0f, 1e9f), 480.0f, 1e30f});
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    out.push_back(static_cast<float>(std::ldexp(random.uniform() + 0.5, static_cast<int>(random.integer(-140, 20)))));
  }
  return out;
}

TEST(SmallFloats, E4m3IsTheNearestNumber) {
  const std::vector<double> all = e4m3();
  ASSERT_EQ(all.back(), 448);
  for (const float v : probes(all)) {
    EXPECT_EQ(float_to_e4m3(v), nearest(all, static_cast<double>(v))) << v;
    EXPECT_EQ(float_to_e4m3(-v), nearest(all, static_cast<double>(v)) | 0x80) << v;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_to_e4m3(infinity), 0x7e);
  EXPECT_EQ(float_to_e4m3(-infinity), 0xfe);
  EXPECT_EQ(float_to_e4m3(std::nanf("")) & 0x7f, 0x7f);
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const double expected = all[static_cast<size_t>(code & 0x7f)];
    EXPECT_EQ(static_cast<double>(value), code < 128 ? expected : -expected) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
  }
}

TEST(SmallFloats, E2m1IsTheNearestNumber) {
  const std::vector<double> all = e2m1();
  ASSERT_EQ(all, (std::vector<double>{0, 0.5, 1, 1.5, 2, 3, 4, 6}));
  for (const float v : probes(all)) {
    EXPECT_EQ(float_to_e2m1(v), nearest(all, static_cast<double>(v))) << v;
    EXPECT_EQ(float_to_e2m1(-v), nearest(all, static_cast<double>(v)) | 8) << v;
  }
  for (uint8_t code = 0; code < 16; ++code) {
    const double expected = all[code & 7];
    EXPECT_EQ(static_cast<double>(e2m1_to_float(code)), code < 8 ? expected : -expected);
  }
}

Tensor weights(const Shape& shape, uint64_t seed) {
  Random random(seed);
  Tensor out(DType::f32, shape);
  for (float& v : out.data<float>()) v = static_cast<float>(random.normal() * std::exp(4 * random.normal()));
  return out;
}

uint8_t byte_at(const Tensor& tensor, int64_t i) { return static_cast<const uint8_t*>(tensor.raw())[i]; }
uint8_t half_byte_at(const Tensor& tensor, int64_t i) {
  return static_cast<uint8_t>(byte_at(tensor, i / 2) >> i % 2 * 4 & 15);
}
int code_of(const std::vector<double>& all, float v, int sign) {
  return nearest(all, static_cast<double>(std::fabs(v))) | (std::signbit(v) ? sign : 0);
}

TEST(SmallFloats, Fp8HasAScaleForEachChannel) {
  const std::vector<double> all = e4m3();
  for (const int axis : {0, 1, 2}) {
    const Tensor w = weights(Shape{5, 7, 3}, static_cast<uint64_t>(axis));
    const Fp8Weights got = to_fp8(w, axis);
    const Tensor floats = to_floats(got, axis);
    ASSERT_EQ(got.scales.shape(), Shape{w.shape()[axis]});
    for (int64_t i = 0; i < w.elements(); ++i) {
      const std::array<int64_t, 3> at{i / 21, i / 3 % 7, i % 3};
      const int64_t c = at[static_cast<size_t>(axis)];
      float most = 0;
      for (int64_t j = 0; j < w.elements(); ++j) {
        const std::array<int64_t, 3> other{j / 21, j / 3 % 7, j % 3};
        if (other[static_cast<size_t>(axis)] == c)
          most = std::max(most, std::fabs(w.data<float>()[static_cast<size_t>(j)]));
      }
      const float scale = most / 448.0f, v = w.data<float>()[static_cast<size_t>(i)];
      EXPECT_EQ(got.scales.data<float>()[static_cast<size_t>(c)], scale);
      EXPECT_EQ(byte_at(got.codes, i), code_of(all, v / scale, 0x80)) << axis << " " << i;
      const auto value = static_cast<float>(all[byte_at(got.codes, i) & 0x7f]) * scale;
      EXPECT_EQ(floats.data<float>()[static_cast<size_t>(i)], std::copysign(value, v));
    }
  }
}

TEST(SmallFloats, Fp4HasAScaleForEachBlock) {
  const std::vector<double> codes = e2m1(), scales = e4m3();
  // [outer, depth, inner]: blocks along the first, a middle and the last axis; a last block of 5, of 16, of 1.
  for (const Shape& shape : {Shape{21, 6}, Shape{3, 32, 5}, Shape{4, 33}}) {
    const int axis = shape.rank() == 3 ? 1 : shape[0] == 21 ? 0 : 1;
    const Tensor w = weights(shape, 9);
    const Fp4Weights got = to_fp4(w, axis);
    const Tensor floats = to_floats(got, axis);
    const int64_t depth = shape[axis], inner = shape.elements(axis + 1, shape.rank()), blocks = (depth + 15) / 16;
    ASSERT_EQ(got.block_scales.shape(), shape.with(axis, blocks));
    float most = 0;
    for (const float v : w.data<float>()) most = std::max(most, std::fabs(v));
    const float scale = most / 2688.0f;
    EXPECT_EQ(got.scale.data<float>()[0], scale);
    for (int64_t i = 0; i < w.elements(); ++i) {
      const int64_t o = i / inner / depth, k = i / inner % depth, n = i % inner, first = k / 16 * 16;
      float block = 0;
      for (int64_t j = first; j < std::min(depth, first + 16); ++j) {
        block = std::max(block, std::fabs(w.data<float>()[static_cast<size_t>((o * depth + j) * inner + n)]));
      }
      const int scale_code = code_of(scales, block / (6.0f * scale), 0x80);
      EXPECT_EQ(byte_at(got.block_scales, (o * blocks + k / 16) * inner + n), scale_code);
      const float step = static_cast<float>(scales[static_cast<size_t>(scale_code)]) * scale;
      const float v = w.data<float>()[static_cast<size_t>(i)];
      const int expected = step > 0 ? code_of(codes, v / step, 8) : 0;
      EXPECT_EQ(half_byte_at(got.codes, i), expected) << shape.str() << i;
      const float value = static_cast<float>(codes[static_cast<size_t>(expected & 7)]) * step;
      EXPECT_EQ(floats.data<float>()[static_cast<size_t>(i)], expected & 8 ? -value : value);
    }
  }
}

TEST(SmallFloats, ZerosHaveScaleOneAndTheRestIsRefused) {
  for (const float v : {0.0f, 1e-44f}) {
    Tensor w = Tensor::zeros(DType::f32, Shape{17, 2});
    for (float& each : w.data<float>()) each = v;
    const Fp8Weights eight = to_fp8(w, 1);
    const Fp4Weights four = to_fp4(w, 0);
    EXPECT_EQ(eight.scales.data<float>()[1], 1);
    EXPECT_EQ(four.scale.data<float>()[0], 1);
    for (const Tensor& floats : {to_floats(eight, 1), to_floats(four, 0)}) {
      for (const float each : floats.data<float>()) EXPECT_EQ(each, 0);
    }
  }
  // A block far below the largest one has a scale of 0, and so zeros.
  Tensor w = Tensor::zeros(DType::f32, Shape{32, 1});
  w.data<float>()[0] = 1;
  w.data<float>()[20] = 1e-7f;
  const Fp4Weights four = to_fp4(w, 0);
  EXPECT_EQ(byte_at(four.block_scales, 1), 0);
  EXPECT_EQ(to_floats(four, 0).data<float>()[20], 0);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    w.data<float>()[3] = bad;
    EXPECT_THROW(to_fp8(w, 0), Error);
    EXPECT_THROW(to_fp4(w, 0), Error);
  }
}

}  // namespace
}  // namespace sparkpilot

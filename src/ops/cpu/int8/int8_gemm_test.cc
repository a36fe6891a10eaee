// Products of bytes on every instruction set of this machine, with and without dot product instructions, compared with
// plain integers.
#include "ops/cpu/int8/int8_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"
#include "hwy/highway.h"
#include "ops/cpu/int8/int8_depthwise.h"

namespace sparkpilot {
namespace {

// Runs `work` with Highway restricted to each of the targets that this machine supports.
void at_every_target(const std::function<void(bool fast)>& work) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t left = all; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    SCOPED_TRACE(hwy::TargetName(left & -left));
    work(false);
    work(true);
  }
  hwy::SetSupportedTargetsForTest(0);
}

template <typename T>
std::vector<T> random_bytes(size_t n, uint64_t seed, int64_t low, int64_t high) {
  Random random(seed);
  std::vector<T> out(n);
  for (T& v : out) v = static_cast<T>(random.integer(low, high));
  return out;
}

struct Case {
  int64_t rows, depth, columns;
};

// The output that `out` defines for a sum.
double expected(const Int8Output& out, int64_t sum, int64_t column) {
  const int64_t whole = sum + out.start[column];
  if (out.dtype == DType::i32) return static_cast<double>(whole);
  const float v = std::fma(static_cast<float>(whole), out.multiplier[column], out.shift[column]);
  if (out.dtype == DType::f32) return static_cast<double>(v);
  return static_cast<double>(std::fmin(std::fmax(std::nearbyint(v), out.low), out.high)) + out.zero;
}

// `simple`: without shifts and with multipliers that keep every product small; else products exceed i32.
void check_product(const Case& c, DType dtype, bool simple, bool fast) {
  const auto groups = static_cast<size_t>((c.depth + 3) / 4);
  const auto lda = static_cast<int64_t>(groups) * 4 + 4;
  // Extreme values, for which 16 bits would overflow.
  const auto a = random_bytes<uint8_t>(static_cast<size_t>(c.rows * lda), 3, 200, 255);
  const auto w = random_bytes<int8_t>(static_cast<size_t>(c.depth * c.columns), 5, -128, -90);
  const Int8Matrix b = pack_int8({w.data(), 1, c.depth, c.columns, 0}, c.depth, c.columns);
  const auto places = static_cast<size_t>(b.blocks() * Int8Matrix::kBlock);
  const auto start = random_bytes<int32_t>(places, 7, -9999, 9999);
  std::vector<float> multiplier(places), shift(places);
  for (size_t i = 0; i < places; ++i) {
    multiplier[i] = -1e-5f * static_cast<float>(i % 7 + 1);
    if (simple) continue;
    shift[i] = 0.37f * static_cast<float>(i % 5);
    if (dtype != DType::f32 && i % 3 == 0) multiplier[i] *= -1e12f;
  }
  Int8Output out{.dtype = dtype, .start = start.data(), .multiplier = multiplier.data(), .shift = shift.data()};
  out.simple = simple;
  out.zero = dtype == DType::i8 ? -11 : 11;
  out.low = dtype == DType::i8 ? -117 : -11;
  out.high = out.low + (simple ? 255 : 100);
  Tensor y = Tensor::zeros(dtype, Shape{c.rows, c.columns + 3});
  out.y = y.raw();
  out.stride = c.columns + 3;
  multiply_int8(a.data(), lda, b, out, {0, c.rows, 0, b.blocks()}, fast);
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      int64_t sum = 0;
      for (int64_t p = 0; p < c.depth; ++p) {
        sum += int64_t{a[static_cast<size_t>(i * lda + p)]} * w[static_cast<size_t>(p * c.columns + j)];
      }
      const double got = load_element(dtype, y.raw(), i * out.stride + j);
      // Targets without fused multiply-add round once more.
      const double want = expected(out, sum, j), allowed = dtype == DType::f32 ? 2e-7 * std::abs(want) : 0;
      ASSERT_NEAR(got, want, allowed) << "row " << i << " column " << j << " " << name(dtype);
    }
    for (int64_t j = c.columns; j < out.stride; ++j) {
      ASSERT_EQ(load_element(dtype, y.raw(), i * out.stride + j), 0) << "written behind the row";
    }
  }
}

TEST(Int8Gemm, IsExactOnEveryTarget) {
  at_every_target([](bool fast) {
    for (const Case& c :
         {Case{1, 1, 1}, Case{1, 640, 65}, Case{2, 7, 16}, Case{13, 64, 33}, Case{29, 37, 48}, Case{50, 20, 112}}) {
      for (const DType dtype : {DType::u8, DType::i8, DType::f32, DType::i32}) {
        for (const bool simple : {true, false}) check_product(c, dtype, simple, fast);
      }
    }
  });
}

struct Filter {
  int64_t channels, kernel, stride, dilation = 1;
  bool simple = true;
};

void check_depthwise(const Filter& c, DType dtype, bool fast) {
  const int64_t pad = c.kernel / 2, channels = c.channels;
  const std::vector<int64_t> pads{pad, pad - 1, pad, pad + 1}, strides{c.stride, c.stride};
  const Attributes attrs{{"group", channels},
                         {"pads", pads},
                         {"strides", strides},
                         {"dilations", std::vector<int64_t>{c.dilation, c.dilation}}};
  constexpr int64_t kHeight = 11, kWidth = 14;
  const ConvShape s =
      conv_shape(attrs, Shape{2, kHeight, kWidth, channels}, Shape{channels, 1, c.kernel, c.kernel}, true);
  const auto n = static_cast<size_t>(channels), taps = static_cast<size_t>(c.kernel * c.kernel);
  const auto x = random_bytes<uint8_t>(2 * kHeight * kWidth * n, 1, 0, 255);
  const auto w = random_bytes<int8_t>(taps * n, 2, -128, 127);
  const auto start = random_bytes<int32_t>(n, 3, -9999, 9999);
  const std::vector<float> multiplier(n, 0.0031f), shift(n, c.simple ? 0.0f : 0.25f);
  const uint8_t padding = 117;
  const Int8Depthwise f =
      pack_depthwise_int8(s, w.data(), padding, start.data(), multiplier.data(), shift.data(), fast);
  Int8Output out{.dtype = dtype, .start = start.data(), .multiplier = multiplier.data(), .shift = shift.data()};
  out.simple = c.simple;
  out.zero = dtype == DType::i8 ? -8 : 120;
  out.low = -120;
  out.high = c.simple ? 135 : 90;
  Tensor y(dtype, s.output());
  out.y = y.raw();
  const int64_t rows = 2 * s.window.out[1];
  std::vector<std::byte> scratch(static_cast<size_t>(f.scratch_bytes()));
  for (int64_t row = 0; row < rows; row += 3) {  // splits pairs of rows
    depthwise_int8(f, x.data(), out, row, std::min(rows, row + 3), scratch.data());
  }
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t ch = i % channels, ow = i / channels % s.window.out[2];
    const int64_t oh = i / channels / s.window.out[2] % s.window.out[1];
    const int64_t image = i / channels / s.window.out[2] / s.window.out[1];
    int64_t sum = 0;
    for (int64_t t = 0; t < c.kernel * c.kernel; ++t) {
      const int64_t h = oh * c.stride - pad + t / c.kernel * c.dilation;
      const int64_t v = ow * c.stride - pad + 1 + t % c.kernel * c.dilation;
      const bool inside = h >= 0 && h < kHeight && v >= 0 && v < kWidth;
      const int64_t at = ((image * kHeight + h) * kWidth + v) * channels + ch;
      sum +=
          int64_t{inside ? x[static_cast<size_t>(at)] : padding} * w[static_cast<size_t>(ch * c.kernel * c.kernel + t)];
    }
    ASSERT_EQ(load_element(dtype, y.raw(), i), expected(out, sum, ch))
        << channels << " channels, " << c.kernel << "/" << c.stride << " " << name(dtype) << " " << i;
  }
}

TEST(Int8Depthwise, IsExactOnEveryTarget) {
  at_every_target([](bool fast) {
    for (const int64_t channels : {1, 16, 33, 64, 96, 144, 240}) {
      for (const int64_t stride : {1, 2, 3}) {
        for (const int64_t kernel : {3, 5}) check_depthwise({channels, kernel, stride}, DType::u8, fast);
      }
    }
    for (const auto& [kernel, stride] : {std::pair{2, 3}, {2, 4}, {4, 3}, {4, 4}}) {
      check_depthwise({33, kernel, stride}, DType::u8, fast);
    }
    check_depthwise({80, 4, 1, 2, false}, DType::i8, fast);
    check_depthwise({96, 7, 1, 1, false}, DType::i8, fast);
  });
}

}  // namespace
}  // namespace sparkpilot

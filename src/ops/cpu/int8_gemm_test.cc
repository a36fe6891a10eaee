// The products of bytes at every instruction set of this machine, with and without dot product instructions, against
// plain integers.
#include "ops/cpu/int8_gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"
#include "hwy/highway.h"
#include "ops/cpu/int8_depthwise.h"

namespace sparkpilot {
namespace {

// Runs `work` with Highway held to each of the targets that this machine has.
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

// What `out` says of a sum.
double expected(const Int8Output& out, int64_t sum, int64_t column) {
  const int64_t whole = sum + out.start[column];
  if (out.dtype == DType::i32) return static_cast<double>(whole);
  const float v = std::fma(static_cast<float>(whole), out.multiplier[column], out.shift[column]);
  if (out.dtype == DType::f32) return static_cast<double>(v);
  return static_cast<double>(std::fmin(std::fmax(std::nearbyint(v), out.low), out.high)) + out.zero;
}

void check_product(const Case& c, DType dtype, bool fast) {
  const auto groups = static_cast<size_t>((c.depth + 3) / 4);
  const auto lda = static_cast<int64_t>(groups) * 4 + 4;
  // Extremes, so that 16 bits would overflow.
  const auto a = random_bytes<uint8_t>(static_cast<size_t>(c.rows * lda), 3, 200, 255);
  const auto w = random_bytes<int8_t>(static_cast<size_t>(c.depth * c.columns), 5, -128, -90);
  const Int8Matrix b = pack_int8({w.data(), 1, c.depth, c.columns, 0}, c.depth, c.columns);
  const auto places = static_cast<size_t>(b.blocks() * Int8Matrix::kBlock);
  const auto start = random_bytes<int32_t>(places, 7, -9999, 9999);
  std::vector<float> multiplier(places), shift(places);
  for (size_t i = 0; i < places; ++i) {
    multiplier[i] = -1e-5f * static_cast<float>(i % 7 + 1);
    shift[i] = 0.37f * static_cast<float>(i % 5);
  }
  Int8Output out{.dtype = dtype, .start = start.data(), .multiplier = multiplier.data(), .shift = shift.data()};
  out.zero = dtype == DType::i8 ? -11 : 11;
  out.low = dtype == DType::i8 ? -117 : -11;
  out.high = out.low + 255;
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
      for (const DType dtype : {DType::u8, DType::i8, DType::f32, DType::i32}) check_product(c, dtype, fast);
    }
  });
}

TEST(Int8Depthwise, IsExactOnEveryTarget) {
  at_every_target([](bool fast) {
    for (const int64_t channels : {1, 16, 33, 64, 144}) {
      for (const int64_t stride : {1, 2}) {
        const std::vector<int64_t> in{11, 9}, kernel{3, 3}, pads{1, 1, 1, 1}, strides{stride, stride};
        const Attributes attrs{{"group", channels}, {"pads", pads}, {"strides", strides}};
        const ConvShape s = conv_shape(attrs, Shape{2, in[0], in[1], channels}, Shape{channels, 1, 3, 3}, true);
        const auto n = static_cast<size_t>(channels);
        const auto x = random_bytes<uint8_t>(2 * 11 * 9 * n, 1, 0, 255);
        const auto w = random_bytes<int8_t>(9 * n, 2, -128, 127);
        const auto start = random_bytes<int32_t>(n, 3, -9999, 9999);
        const std::vector<float> multiplier(n, 0.0031f), shift(n, 0.25f);
        const uint8_t padding = 117;
        const Int8Depthwise f =
            pack_depthwise_int8(s, w.data(), padding, start.data(), multiplier.data(), shift.data(), fast);
        Int8Output out{
            .dtype = DType::u8, .start = start.data(), .multiplier = multiplier.data(), .shift = shift.data()};
        out.low = -120;
        out.high = 135;
        out.zero = 120;
        Tensor y(DType::u8, s.output());
        out.y = y.raw();
        const int64_t rows = 2 * s.window.out[1];
        std::vector<std::byte> scratch(static_cast<size_t>(f.scratch_bytes(4)));
        for (int64_t row = 0; row < rows; row += 4) {
          depthwise_int8(f, x.data(), out, row, std::min(rows, row + 4), scratch.data());
        }
        for (int64_t i = 0; i < y.elements(); ++i) {
          const int64_t c = i % channels, ow = i / channels % s.window.out[2];
          const int64_t oh = i / channels / s.window.out[2] % s.window.out[1];
          const int64_t image = i / channels / s.window.out[2] / s.window.out[1];
          int64_t sum = 0;
          for (int64_t t = 0; t < 9; ++t) {
            const int64_t h = oh * stride - 1 + t / 3, v = ow * stride - 1 + t % 3;
            const bool inside = h >= 0 && h < in[0] && v >= 0 && v < in[1];
            const int64_t at = ((image * in[0] + h) * in[1] + v) * channels + c;
            sum += int64_t{inside ? x[static_cast<size_t>(at)] : padding} * w[static_cast<size_t>(c * 9 + t)];
          }
          ASSERT_EQ(load_element(DType::u8, y.raw(), i), expected(out, sum, c))
              << channels << " " << stride << " " << i;
        }
      }
    }
  });
}

}  // namespace
}  // namespace sparkpilot

// Quantization of rows on every instruction set of this machine, compared with plain division.
#include "ops/cpu/int8/quantize_rows.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "tensor/small_floats.h"

namespace sparkpilot {
namespace {

template <typename T>
T expected(float x, float scale, float zero) {
  const float lowest = static_cast<float>(std::numeric_limits<T>::min()) - zero;
  const float highest = static_cast<float>(std::numeric_limits<T>::max()) - zero;
  float v = x / scale;
  v = v >= lowest ? v : lowest;
  v = v <= highest ? v : highest;
  return static_cast<T>(static_cast<int>(std::nearbyint(v)) + static_cast<int>(zero));
}

// Quotients at, just below and just above every tie, out of range, and NaN.
std::vector<float> samples(float scale, Random& random) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> xs = {0.0f, -0.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 3e38f, -3e38f, 1e-45f};
  for (int k = -258; k <= 258; ++k) {
    float x = (static_cast<float>(k) + 0.5f) * scale;
    for (int back = 0; back < 2; ++back) x = std::nextafter(x, -kInf);
    for (int i = 0; i < 5; ++i, x = std::nextafter(x, kInf)) xs.push_back(x);
    xs.push_back(static_cast<float>(random.normal()) * 100 * scale);
  }
  return xs;
}

template <typename T>
void check(float scale, float zero, Random& random) {
  const std::vector<float> xs = samples(scale, random);
  std::vector<T> got(xs.size());
  quantize_row(xs.data(), got.data(), std::ssize(xs), scale, zero);
  for (size_t i = 0; i < xs.size(); ++i) {
    ASSERT_EQ(got[i], expected<T>(xs[i], scale, zero)) << "element " << i << ": " << xs[i] << " / " << scale;
  }
}

// As above; ties of E4M3 lie between multiples of halves, quarters and so on.
void check_e4m3(float scale, Random& random) {
  std::vector<float> xs = samples(scale, random);
  for (int i = 0; i < 300; ++i) xs.push_back(static_cast<float>(std::ldexp(random.uniform(), -i / 20)) * scale);
  for (int code = 0; code < 127; ++code) {
    const float v = (e4m3_to_float(static_cast<uint8_t>(code)) + e4m3_to_float(static_cast<uint8_t>(code + 1))) / 2;
    xs.insert(xs.end(), {v * scale, std::nextafter(v, 0.0f) * scale, std::nextafter(v, 1e9f) * scale});
  }
  std::vector<uint8_t> got(xs.size());
  quantize_row_e4m3(xs.data(), got.data(), std::ssize(xs), scale);
  for (size_t i = 0; i < xs.size(); ++i) {
    const float quotient = xs[i] / scale;
    if (std::isnan(quotient)) ASSERT_EQ(got[i] & 0x7f, 0x7f);
    else ASSERT_EQ(got[i], float_to_e4m3(quotient)) << "element " << i << ": " << xs[i] << " / " << scale;
  }
}

TEST(QuantizeRows, AreDividedExactly) {
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t target = int64_t{1} << bit;
    if (!(hwy::SupportedTargets() & target & HWY_TARGETS)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE("target " + std::to_string(target));
    Random random(7);
    for (int i = 0; i < 1000; ++i) {
      // Ordinary scales, and sometimes the smallest and largest possible.
      const int reach = i % 10 == 0 ? 125 : 20;
      const auto exponent = static_cast<int>(random.integer(-reach, reach - 1));
      const float scale = std::ldexp(1 + static_cast<float>(random.uniform()), exponent);
      check<uint8_t>(scale, static_cast<float>(random.integer(0, 255)), random);
      check_e4m3(i % 3 ? scale : -scale, random);
      check<int8_t>(i % 7 ? scale : -scale, static_cast<float>(random.integer(-128, 127)), random);
      if (HasFailure()) break;
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace
}  // namespace sparkpilot

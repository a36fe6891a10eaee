#include "sim/math-inl.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/random.h"
#include "sim/noise-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

// An ulp of T at `value`.
template <class T>
double ulp(long double value) {
  const T at = static_cast<T>(std::fabs(value));
  return static_cast<double>(std::nextafter(at, std::numeric_limits<T>::infinity()) - at);
}

struct Worst {
  double ulps = 0, absolute = 0;
};
// Over an even grid of [low, high].
template <class T>
Worst worst(T (*function)(T), long double (*exact)(long double), double low, double high, int points = 200001) {
  Worst w;
  for (int i = 0; i < points; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / (points - 1));
    const long double want = exact(x);
    const auto error = static_cast<double>(std::fabs(static_cast<long double>(function(x)) - want));
    w.absolute = std::max(w.absolute, error);
    if (want != 0) w.ulps = std::max(w.ulps, error / ulp<T>(want));
    if (!std::isfinite(error)) return {1e300, 1e300};
  }
  return w;
}

template <class T>
T sine(T x) {
  T s, c;
  sin_cos(x, s, c);
  return s;
}
template <class T>
T cosine(T x) {
  T s, c;
  sin_cos(x, s, c);
  return c;
}

template <class T>
void expect_stated_errors(double sine_base, double sine_slope, double tan_ulps, double atan_ulps, double exp_ulps,
                          double log_ulps, double log_absolute) {
  for (const double range : {1.0, 100.0, 1e4}) {
    EXPECT_LE(worst<T>(sine, sinl, -range, range).absolute, sine_base + sine_slope * range) << range;
    EXPECT_LE(worst<T>(cosine, cosl, -range, range).absolute, sine_base + sine_slope * range) << range;
  }
  EXPECT_LE(worst<T>(scalar::tan<T>, tanl, -1.5, 1.5).ulps, tan_ulps);
  EXPECT_LE(worst<T>(scalar::atan<T>, atanl, -1.2, 1.2).ulps, atan_ulps);
  EXPECT_LE(worst<T>(scalar::atan<T>, atanl, -1e4, 1e4).ulps, atan_ulps);
  EXPECT_LE(worst<T>(scalar::exp<T>, expl, -80, 80).ulps, exp_ulps);
  EXPECT_LE(worst<T>(scalar::exp<T>, expl, -1, 1).ulps, exp_ulps);
  EXPECT_LE(worst<T>(scalar::log<T>, logl, 1e-6, 0.7).ulps, log_ulps);
  EXPECT_LE(worst<T>(scalar::log<T>, logl, 1.5, 1e6).ulps, log_ulps);
  EXPECT_LE(worst<T>(scalar::log<T>, logl, 0.5, 1.5).absolute, log_absolute);
}

// The table at the head of sim/math-inl.h.
TEST(Math, FloatErrorsAreThoseStated) { expect_stated_errors<float>(1e-7, 2e-9, 4, 4, 2, 2, 6e-8); }
TEST(Math, DoubleErrorsAreThoseStated) { expect_stated_errors<double>(1e-15, 1e-16, 8, 8, 4, 4, 2e-16); }

TEST(Math, ExactWhereItHasToBe) {
  EXPECT_EQ(sine(0.0f), 0.0f);
  EXPECT_EQ(cosine(0.0f), 1.0f);
  EXPECT_EQ(scalar::exp(0.0f), 1.0f);
  EXPECT_EQ(scalar::log(1.0f), 0.0f);
  EXPECT_EQ(scalar::atan(0.0), 0.0);
  EXPECT_NEAR(scalar::atan(std::numeric_limits<float>::infinity()), 1.5707964f, 1e-7);
}

TEST(Math, InterpolatesAsATableDoes) {
  constexpr double kX[] = {1, 1.5, 2, 3, 5, 7.5, 10, 15, 30};
  const float y[] = {250, 120, 65, 30, 11.5f, 5.5f, 3.5f, 2, 0.8f};
  for (int i = 0; i < 9; ++i)
    EXPECT_NEAR(interpolate(static_cast<float>(kX[i]), kX, y), y[i], 1e-6 * static_cast<double>(y[i])) << i;
  EXPECT_EQ(interpolate(31.0f, kX, y), 0.8f);
  EXPECT_NEAR(interpolate(0.0f, kX, y), 250, 1e-4);
  EXPECT_NEAR(interpolate(22.5f, kX, y), 1.4, 1e-6);
}

TEST(Noise, IsThatOfTheGenerator) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{0x123456789abcdef0}}) {
    for (const uint64_t counter : {uint64_t{0}, uint64_t{1}, uint64_t{0xfedcba9876543210}}) {
      uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
      scalar::philox4x32(key, c);
      const auto expected = sparkpilot::philox4x32(key, counter);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(c[i], expected[static_cast<size_t>(i)]);
    }
  }
}

TEST(Noise, IsNormalAndTheSameForEveryNumberType) {
  double sum[4] = {}, squares[4] = {}, fourth[4] = {}, cross = 0, largest = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    double d[4];
    float f[4];
    normal_numbers(7, static_cast<uint32_t>(i % 1000), static_cast<double>(i / 1000), 3.0, d);
    normal_numbers(7, static_cast<uint32_t>(i % 1000), static_cast<float>(i / 1000), 3.0f, f);
    for (int k = 0; k < 4; ++k) {
      sum[k] += d[k];
      squares[k] += d[k] * d[k];
      fourth[k] += d[k] * d[k] * d[k] * d[k];
      largest = std::max(largest, std::fabs(d[k] - static_cast<double>(f[k])));
    }
    cross += d[0] * d[1];
  }
  for (int k = 0; k < 4; ++k) {
    EXPECT_NEAR(sum[k] / kCount, 0, 0.01);
    EXPECT_NEAR(squares[k] / kCount, 1, 0.015);
    EXPECT_NEAR(fourth[k] / kCount, 3, 0.1);
  }
  EXPECT_NEAR(cross / kCount, 0, 0.01);
  EXPECT_LT(largest, 5e-6);
}

}  // namespace
}  // namespace sparkpilot::sim

#include "sim/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace sparkpilot::sim {
namespace {

// y = a exp(-b t) + noise whose neighbours are alike, as filters make it; every outlier_each-th is 5 off.
struct Decay {
  std::vector<double> t, y;
  std::vector<int64_t> block;
  Decay(uint64_t seed, double smooth, int outlier_each) {
    Random random(seed);
    double noise = 0;
    for (int i = 0; i < 2000; ++i) {
      noise = smooth * noise + std::sqrt(1 - smooth * smooth) * random.normal();
      t.push_back(0.001 * i);
      y.push_back(2 * std::exp(-1.5 * t.back()) + 0.1 * noise + (outlier_each > 0 && i % outlier_each == 0 ? 5 : 0));
      block.push_back(i / 100);
    }
  }
  FitResult fit(double outlier = 3) const {
    const FitParameter parameters[] = {{1, 0, 10, 1e-4}, {1, 0, 10, 1e-4}};
    return fit_least_squares(parameters,
                             [this](std::span<const double> p, std::vector<double>& out) {
                               out.clear();
                               for (size_t i = 0; i < t.size(); ++i)
                                 out.push_back(p[0] * std::exp(-p[1] * t[i]) - y[i]);
                             },
                             block, {.outlier = outlier});
  }
};

TEST(LeastSquares, FindsADecay) {
  const FitResult fit = Decay(1, 0, 0).fit();
  ASSERT_TRUE(fit.converged);
  EXPECT_NEAR(fit.values[0], 2, 0.02);
  EXPECT_NEAR(fit.values[1], 1.5, 0.03);
  EXPECT_NEAR(fit.deviation, 0.1, 0.01);
  EXPECT_EQ(fit.blocks, 20);
}

TEST(LeastSquares, OutliersWeighLittle) {
  const Decay decay(2, 0, 50);
  const double robust = std::abs(decay.fit().values[0] - 2), squared = std::abs(decay.fit(1e9).values[0] - 2);
  EXPECT_LT(robust, 0.04);
  EXPECT_GT(squared, 2 * robust);
}

// Independent noise and noise that lasts for some 20 samples: intervals of 95 % hold the truth in either.
TEST(LeastSquares, IntervalsHoldTheTruth) {
  for (const double smooth : {0.0, 0.9}) {
    int held = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const FitResult fit = Decay(seed + 10, smooth, 0).fit();
      held += fit.low[1] <= 1.5 && 1.5 <= fit.high[1];
    }
    EXPECT_GE(held, 88) << smooth;
  }
}

TEST(LeastSquares, WhatDataDoNotDetermineHasNoInterval) {
  const FitParameter parameters[] = {{1, -10, 10, 1e-4}, {1, -10, 10, 1e-4}};
  const std::vector<int64_t> block = {0, 0, 1, 1, 2, 2, 3, 3};
  const FitResult fit = fit_least_squares(
      parameters,
      [](std::span<const double> p, std::vector<double>& out) {
        out.clear();
        for (int i = 0; i < 8; ++i) out.push_back(p[0] + p[1] - 3 + 0.01 * (i % 3));
      },
      block);
  EXPECT_TRUE(std::isinf(fit.low[0]) && std::isinf(fit.high[1]));
  EXPECT_NEAR(fit.values[0] + fit.values[1], 3, 0.02);
}

}  // namespace
}  // namespace sparkpilot::sim

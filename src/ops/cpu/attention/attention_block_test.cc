#include "ops/cpu/attention/attention_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sparkpilot::attention_block_test {

// Weights of a query over keys whose scores lie between -infinity and the largest, 2.5.
std::vector<float> weights_of(std::vector<float> scores, float& inverse) {
  const auto keys = static_cast<int64_t>(scores.size());
  const KeyRange seen{0, keys};
  scores.resize(static_cast<size_t>(whole_lines(keys)), 77.0f);
  attention_softmax({1, keys, &seen, scores.data(), whole_lines(keys)}, &inverse);
  return scores;
}

TEST(AttentionBlock, WeightsAreExponentials) {
  std::vector<float> scores{2.5f};
  for (int i = 0; i <= 5000; ++i) {
    scores.push_back(2.5f - static_cast<float>(i) * 0.0177f);
    scores.push_back(2.5f - static_cast<float>(i) * 2e-6f);
  }
  float inverse = 0;
  const std::vector<float> weights = weights_of(scores, inverse);
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double x = static_cast<double>(scores[i] - 2.5f), expected = std::exp(x);
    sum += expected;
    if (expected > 0x1p-125) {
      EXPECT_NEAR(weights[i] / expected, 1, (3 + 1.3 * -x) * 0x1p-24) << x;
    } else {
      EXPECT_LE(weights[i], 0x1p-124) << x;
    }
  }
  EXPECT_NEAR(inverse * sum, 1, 1e-6);
  // What is behind the last key is no weight.
  EXPECT_TRUE(std::all_of(weights.begin() + static_cast<int64_t>(scores.size()), weights.end(),
                          [](float each) { return each == 0; }));
}

TEST(AttentionBlock, WhatCannotBeSeenWeighsNothingAndNanStays) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  float inverse = 0;
  std::vector<float> weights = weights_of({-kInfinity, 1, -kInfinity, 1, -1e30f}, inverse);
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 5), (std::vector<float>{0, 1, 0, 1, 0}));
  EXPECT_EQ(inverse, 0.5f);
  weights = weights_of({-kInfinity, -kInfinity, -kInfinity}, inverse);
  EXPECT_EQ(std::vector<float>(weights.begin(), weights.begin() + 3), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(inverse, 0);
  weights = weights_of({1, kNan, 0}, inverse);
  EXPECT_TRUE(std::isnan(weights[1]));
  EXPECT_TRUE(std::isnan(inverse));
}

}  // namespace sparkpilot::attention_block_test

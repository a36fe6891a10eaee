#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace sparkpilot {
namespace {

TEST(Statistics, MedianIsTheMiddle) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median(std::vector<double>{4, 1, 2, 3}), 2.5);
}

// The shares of the binomial distribution: 5 rounds hold the median between the least and the greatest with 0.938, 8
// without one on each side with 0.930, 20 without five with 0.959.
TEST(Ratio, LeavesOutAsManyRoundsAsTheSignTestAllows) {
  const std::vector<double> ones(2000, 1.0);
  for (const auto& [rounds, out] : {std::pair{1, 0}, {4, 0}, {5, 0}, {7, 0}, {8, 1}, {10, 1}, {11, 2}, {20, 5}}) {
    std::vector<double> ours;
    for (int i = rounds; i >= 1; --i) ours.push_back(i);
    const Ratio r = ratio_of(ours, std::span(ones).first(ours.size()));
    EXPECT_EQ(r.rounds, rounds);
    EXPECT_EQ(r.low, 1 + out) << rounds;
    EXPECT_EQ(r.high, rounds - out) << rounds;
  }
}

// The same for 98.75 %: 8 rounds with 0.992, 20 without four on each side with 0.988 and without five with 0.959.
TEST(Ratio, LeavesOutFewerForMoreConfidence) {
  const std::vector<double> ones(1000, 1.0);
  for (const auto& [rounds, out] : {std::pair{7, 0}, {8, 0}, {10, 0}, {20, 4}, {50, 15}, {1000, 459}}) {
    std::vector<double> ours;
    for (int i = rounds; i >= 1; --i) ours.push_back(i);
    const Ratio r = ratio_of(ours, std::span(ones).first(ours.size()), 0.9875);
    EXPECT_EQ(r.low, 1 + out) << rounds;
    EXPECT_EQ(r.high, rounds - out) << rounds;
  }
}

TEST(NormalQuantile, IsThatOfTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-9);
  EXPECT_NEAR(normal_quantile(0.05), -1.6448536, 1e-6);
  EXPECT_NEAR(normal_quantile(0.99375), 2.4977055, 1e-6);
}

TEST(ToleranceFactor, IsThatOfTables) {
  for (const auto& [n, k] : {std::pair{8, 4.354}, {10, 3.981}, {20, 3.295}, {50, 2.862}, {100, 2.684}}) {
    EXPECT_NEAR(tolerance_factor(n, 0.99, 0.95), k, 0.02 * k) << n;
  }
  EXPECT_NEAR(tolerance_factor(20, 0.999, 0.95), 4.318, 0.02 * 4.318);
}

TEST(Ratio, OfRoundsThatDriftTogetherIsExact) {
  std::vector<double> ours, theirs;
  for (int i = 1; i <= 10; ++i) {
    theirs.push_back(i * i);
    ours.push_back(0.5 * i * i);
  }
  const Ratio r = ratio_of(ours, theirs);
  EXPECT_EQ(r.median, 0.5);
  EXPECT_EQ(r.low, 0.5);
  EXPECT_EQ(r.high, 0.5);
}

// In nine of ten series or more the interval holds the true median, with a skewed distribution too; and it is not much
// wider than needed.
TEST(Ratio, HoldsTheTrueMedianInNineOfTen) {
  Random random(7);
  for (const int rounds : {5, 9, 10, 24, 501, 700}) {
    constexpr int kSeries = 1000;
    int held = 0;
    for (int s = 0; s < kSeries; ++s) {
      std::vector<double> ours, theirs(static_cast<size_t>(rounds), 1.0);
      for (int i = 0; i < rounds; ++i) ours.push_back(std::exp(std::exp(random.normal()) - 1));  // median 1
      const Ratio r = ratio_of(ours, theirs);
      held += r.low <= 1 && r.high >= 1;
    }
    EXPECT_GE(held, 870) << rounds;
    EXPECT_LE(held, 995) << rounds;
  }
}

}  // namespace
}  // namespace sparkpilot

#include "base/rank_interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

// Critical values of U, two-sided 5 % (the table printed in most textbooks): the rank is the next number.
TEST(RankOfEnds, AgreesWithTheTables) {
  EXPECT_EQ(rank_of_ends(3, 3, 0.95), 0u);  // no critical value: one in twenty orders is as extreme as it can be
  EXPECT_EQ(rank_of_ends(4, 4, 0.95), 1u);
  EXPECT_EQ(rank_of_ends(3, 5, 0.95), 1u);
  EXPECT_EQ(rank_of_ends(5, 5, 0.95), 3u);
  EXPECT_EQ(rank_of_ends(8, 8, 0.95), 14u);
  EXPECT_EQ(rank_of_ends(10, 10, 0.95), 24u);
  EXPECT_EQ(rank_of_ends(20, 20, 0.95), 128u);
  EXPECT_EQ(rank_of_ends(12, 8, 0.95), rank_of_ends(8, 12, 0.95));
}

// R's documentation of wilcox.test has this for Hollander and Wolfe's data (samples of 10 and 5): W = 35, p = 0.1272.
// So P(U <= 15) = 0.1272.
TEST(RankOfEnds, AgreesWithR) {
  EXPECT_EQ(rank_of_ends(10, 5, 1 - 2 * 0.12725), 16u);
  EXPECT_EQ(rank_of_ends(10, 5, 1 - 2 * 0.12715), 15u);
}

// Every order of m and n numbers is equally likely: their U counted one by one.
TEST(RankOfEnds, AgreesWithCounting) {
  for (const auto& [m, n] : {std::pair{1, 1}, {2, 3}, {4, 3}, {5, 6}, {7, 4}}) {
    std::vector<int> orders(static_cast<size_t>(m * n) + 1);
    int all = 0;
    for (unsigned bits = 0; bits < 1u << (m + n); ++bits) {
      int ours = 0, u = 0;
      for (int i = 0; i < m + n; ++i) {
        if (bits >> i & 1) ++ours;
        else u += ours;
      }
      if (ours != m) continue;
      ++orders[static_cast<size_t>(u)];
      ++all;
    }
    for (const double confidence : {0.5, 0.8, 0.9, 0.95, 0.99}) {
      size_t rank = 0;
      for (int below = 0; rank < orders.size(); ++rank) {
        below += orders[rank];
        if (below > all * (1 - confidence) / 2 + 1e-9) break;
      }
      EXPECT_EQ(rank_of_ends(static_cast<size_t>(m), static_cast<size_t>(n), confidence), rank)
          << m << " " << n << " " << confidence;
    }
  }
}

TEST(RankOfEnds, IsNearlyTheSameByTheNormalDistribution) {
  const size_t exact = rank_of_ends(100, 100, 0.95), normal = rank_of_ends(100, 101, 0.95);
  EXPECT_NEAR(static_cast<double>(exact), 4197, 2);  // 5000 - 1.96 sqrt(100 100 201 / 12)
  EXPECT_GT(normal, exact);
  EXPECT_LT(normal, exact + 60);
}

TEST(RatioInterval, IsMadeOfOrderedRatios) {
  const std::vector<double> ours{8, 2, 4, 1}, theirs{1, 4, 2, 8};
  const RatioInterval same = ratio_interval(ours, theirs, 0.95);
  EXPECT_EQ(same.ratio, 1);
  EXPECT_EQ(same.low, 1.0 / 8);
  EXPECT_EQ(same.high, 8);
  const std::vector<double> few{1.0, 2.0};
  EXPECT_EQ(ratio_interval(few, theirs, 0.95).low, 0);
  EXPECT_EQ(ratio_interval(few, theirs, 0.95).high, std::numeric_limits<double>::infinity());
  EXPECT_THROW(ratio_interval({}, theirs, 0.95), Error);
}

// Of what holds for any distribution, a skewed one with outliers.
TEST(RatioInterval, HoldsTheTrueRatio) {
  Random random(3);
  constexpr int kSeries = 1000;
  for (const double truth : {1.0, 1.08}) {
    int held = 0, above_one = 0;
    for (int s = 0; s < kSeries; ++s) {
      std::vector<double> ours, theirs;
      for (int i = 0; i < 20; ++i) {
        theirs.push_back(std::exp(0.02 * std::exp(random.normal())));
        ours.push_back(truth * std::exp(0.02 * std::exp(random.normal())));
      }
      const RatioInterval r = ratio_interval(ours, theirs, 0.95);
      held += r.low <= truth && r.high >= truth;
      above_one += r.low > 1;
    }
    EXPECT_GE(held, 930) << truth;
    EXPECT_LE(held, 975) << truth;  // 0.951 is what the discrete distribution gives
    EXPECT_EQ(above_one, truth > 1 ? kSeries : above_one);
  }
}

}  // namespace
}  // namespace sparkpilot

#include "base/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/random.h"
#include "base/test_error.h"
#include "base/test_goldens.h"

namespace sparkpilot {
namespace {

// A section of paired_golden.txt, which bench/sim/make_statistics_goldens.py wrote.
std::vector<std::vector<double>> section(const std::string& name) {
  return golden_section(SPARKPILOT_SOURCE_DIR "/src/base/paired_golden.txt", name);
}

std::vector<int64_t> counted(size_t n) {
  std::vector<int64_t> out(n);
  std::iota(out.begin(), out.end(), int64_t{0});
  return out;
}

TEST(Paired, StudentAgreesWithSciPy) {
  for (const auto& row : section("student")) {
    const double freedom = row[0], p = row[1], t = row[2];
    EXPECT_NEAR(student_cdf(t, freedom), row[3], 1e-9 * row[3]) << t << " with " << freedom;
    if (p > 1e-9 && std::abs(t) < 1e3) {
      EXPECT_NEAR(student_quantile(p, freedom), t, 1e-6 * std::max(1e-2, std::abs(t))) << p << " with " << freedom;
    }
  }
  EXPECT_EQ(student_cdf(-1e200, 3), 0);
  EXPECT_EQ(student_cdf(1e200, 3), 1);
}

TEST(Paired, InterquartileMeanAgreesWithSciPy) {
  EXPECT_EQ(interquartile_mean({}), 0);
  EXPECT_EQ(interquartile_mean(std::vector<double>{100, 2, 4, -100}), 3);
  for (const auto& row : section("interquartile_mean")) {
    EXPECT_NEAR(interquartile_mean(std::span(row).subspan(1)), row[0], 1e-12 * std::abs(row[0]));
  }
}

TEST(Paired, SignedRankAgreesWithSciPy) {
  for (const auto& row : section("signed_rank")) {
    const SignedRank got = signed_rank(std::span(row).subspan(2));
    EXPECT_EQ(got.above, row[1]);
    EXPECT_NEAR(got.p, row[0], 1e-9 * row[0]) << row.size() - 2;
    EXPECT_EQ(got.exact, row.size() - 2 <= kExactRanks);
  }
}

TEST(Paired, SignedRankByHand) {
  EXPECT_EQ(signed_rank({}).p, 1);
  EXPECT_EQ(signed_rank(std::vector<double>(7, 0.0)).p, 1);
  EXPECT_EQ(signed_rank(std::vector<double>(70, 0.0)).p, 1);
  EXPECT_EQ(signed_rank(std::vector<double>{3}).p, 1);
  // Five of one sign: two of 32 assignments are as far.
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{1, 2, 3, 4, 5}).p, 2.0 / 32);
  EXPECT_DOUBLE_EQ(signed_rank(std::vector<double>{-1, -1, -1, -1, -1}).p, 2.0 / 32);
  // Ranks 1 and 2 to zeros, then 3, 4.5, 4.5: sums of 3 or less: 0 and 3.
  const SignedRank pratt = signed_rank(std::vector<double>{0, -1, 2, 2, 0});
  EXPECT_EQ(pratt.used, 3);
  EXPECT_EQ(pratt.above, 9);
  EXPECT_DOUBLE_EQ(pratt.p, 2 * 2.0 / 8);
  // Symmetric.
  EXPECT_EQ(signed_rank(std::vector<double>{1, -1, 2, -2}).p, 1);
}

TEST(Paired, HolmByHand) {
  EXPECT_TRUE(holm({}).empty());
  // R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
  const std::vector<double> p{0.01, 0.04, 0.03, 0.005}, want{0.03, 0.06, 0.06, 0.02}, got = holm(p);
  for (size_t i = 0; i < p.size(); ++i) EXPECT_DOUBLE_EQ(got[i], want[i]);
  EXPECT_EQ(holm(std::vector<double>{0.9, 0.8}), (std::vector<double>{1, 1}));
  const std::vector<double> levels = holm_levels(p, 0.05);
  EXPECT_DOUBLE_EQ(levels[3], 0.05 / 4);
  EXPECT_DOUBLE_EQ(levels[0], 0.05 / 3);
  EXPECT_DOUBLE_EQ(levels[2], 0.05 / 2);  // the first that is not rejected
  EXPECT_DOUBLE_EQ(levels[1], 0.05 / 2);
}

// Rejected by its corrected p exactly where its p is at most its level.
TEST(Paired, HolmsLevelsAndCorrectedValuesSayTheSame) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> p;
    for (int i = 0; i < 1 + round % 17; ++i) p.push_back(std::pow(random.uniform(), 4));
    const std::vector<double> corrected = holm(p), levels = holm_levels(p, 0.05);
    for (size_t i = 0; i < p.size(); ++i) EXPECT_EQ(corrected[i] <= 0.05, p[i] <= levels[i]);
  }
}

TEST(Paired, BootstrapAgreesWithNumPyAndSciPy) {
  for (const auto& row : section("bootstrap")) {
    std::vector<double> values;
    std::vector<int64_t> clusters;
    for (size_t i = 4; i + 1 < row.size(); i += 2) {
      clusters.push_back(static_cast<int64_t>(row[i]));
      values.push_back(row[i + 1]);
    }
    const ClusteredMean got = clustered_mean(values, clusters, {.resamples = 50'000, .seed = 1});
    EXPECT_NEAR(got.mean, row[0], 1e-12);
    EXPECT_NEAR(got.low, row[1], 0.03 * (row[2] - row[1]));
    EXPECT_NEAR(got.high, row[2], 0.03 * (row[2] - row[1]));
    EXPECT_NEAR(got.error, row[3], 0.02 * row[3]);
  }
}

TEST(Paired, BootstrapOfFewOrEqualDifferences) {
  EXPECT_EQ(clustered_mean({}, {}, {}).count, 0);
  const std::vector<double> zeros(30, 0.0), equal(30, 0.25);
  const ClusteredMean none = clustered_mean(zeros, counted(30), {});
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.p, 1);
  EXPECT_EQ(none.half_width(0.001), 0);
  const ClusteredMean all = clustered_mean(equal, counted(30), {});
  EXPECT_EQ(all.low, 0.25);
  EXPECT_EQ(all.high, 0.25);
  EXPECT_EQ(all.p, 0);
  // One cluster says nothing of others.
  const ClusteredMean one = clustered_mean(std::vector<double>{1, 2, 6}, std::vector<int64_t>{7, 7, 7}, {});
  EXPECT_EQ(one.clusters, 1);
  EXPECT_EQ(one.mean, 3);
  EXPECT_EQ(one.low, 3);
  EXPECT_EQ(one.p, 1);
  // Four are too few for p; the interval is the range of the resamples.
  const ClusteredMean four = clustered_mean(std::vector<double>{1, 2, 3, 4}, counted(4), {});
  EXPECT_EQ(four.p, 1);
  EXPECT_EQ(four.low, 1);
  EXPECT_EQ(four.high, 4);
  EXPECT_LT(clustered_mean(std::vector<double>{1, 2, 3, 4, 5}, counted(5), {}).p, 0.05);
}

TEST(Paired, BootstrapIsTheSameOnAnyNumberOfThreads) {
  Random random(5);
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back(random.normal());
  const auto of = [&](int threads, uint64_t seed) {
    const ThreadScope scope(threads);
    return clustered_mean(values, counted(400), {.seed = seed});
  };
  const ClusteredMean one = of(1, 9);
  for (const int threads : {2, 3, 7}) {
    const ClusteredMean more = of(threads, 9);
    EXPECT_EQ(one.low, more.low);
    EXPECT_EQ(one.high, more.high);
    EXPECT_EQ(one.error, more.error);
    EXPECT_EQ(one.p, more.p);
  }
  EXPECT_NE(one.low, of(1, 10).low);
}

// 3,000 clusters are taken together to 250: the standard error stays the mean's.
TEST(Paired, ManyClustersAreTakenTogether) {
  Random random(6);
  std::vector<double> values;
  double squares = 0;
  for (int i = 0; i < 3000; ++i) {
    values.push_back(random.normal());
    squares += values.back() * values.back();
  }
  const ClusteredMean got = clustered_mean(values, counted(3000), {});
  EXPECT_EQ(got.clusters, kMostClusters);
  EXPECT_NEAR(got.error, std::sqrt(squares) / 3000, 0.1 * std::sqrt(squares) / 3000);
}

// Clusters whose differences share an error: intervals that hold the true mean as often as they say, at 12 clusters and
// with a skewed distribution too, where single differences as clusters would miss it half the time.
TEST(Paired, BootstrapHoldsTheMeanAsOftenAsItSays) {
  const ThreadScope alone(1);  // each call is short
  for (const bool skewed : {false, true}) {
    Random random(skewed ? 11 : 12);
    int held = 0, by_t = 0, naive = 0;
    constexpr int kSeries = 400;
    for (int s = 0; s < kSeries; ++s) {
      std::vector<double> values;
      std::vector<int64_t> clusters;
      for (int64_t c = 0; c < 12; ++c) {
        const double shared = skewed ? std::exp(0.7 * random.normal()) - std::exp(0.245) : random.normal();
        for (int i = 0; i < 8; ++i) {
          values.push_back(shared + 0.3 * random.normal());
          clusters.push_back(c);
        }
      }
      const BootstrapOptions options{.resamples = 1000, .seed = static_cast<uint64_t>(s)};
      const ClusteredMean got = clustered_mean(values, clusters, options);
      held += got.low <= 0 && got.high >= 0;
      by_t += got.p > 0.05;
      const ClusteredMean single = clustered_mean(values, counted(values.size()), options);
      naive += single.low <= 0 && single.high >= 0;
    }
    EXPECT_GE(held, skewed ? 350 : 368);  // of 400: 380 are expected of the symmetric one
    EXPECT_LE(held, 394);
    EXPECT_GE(by_t, skewed ? 345 : 368);
    EXPECT_LE(naive, 280);
  }
}

TEST(Paired, RefusesWhatIsNotFinite) {
  const std::vector<double> bad{1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(signed_rank(bad), Error);
  EXPECT_THROW(holm(bad), Error);
  EXPECT_THROW(interquartile_mean(bad), Error);
  EXPECT_THROW(clustered_mean(bad, counted(2), {}), Error);
}

}  // namespace
}  // namespace sparkpilot

// Whether two things that were measured on the same cases differ: on the differences, one or several for each case.
//
// All of it takes finite numbers (fails, internal, on others) and gives finite ones, and the same ones on any number of
// threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sparkpilot {

// The mean of what is left without the floor(n/4) least and as many of the greatest. 0 for no samples.
double interquartile_mean(std::span<const double> samples);

// P(T <= t) of Student's t with this many degrees of freedom (above 0), by the incomplete beta function.
double student_cdf(double t, double freedom);
// t with student_cdf(t) = probability, which is above 0 and below 1.
double student_quantile(double probability, double freedom);

// Wilcoxon's signed-rank test that the differences are symmetric about 0, two-sided. Zeros are ranked with the others
// and then left out (Pratt, JASA 54, 1959), ties have their mean rank.
struct SignedRank {
  int64_t used = 0;  // differences that are not 0
  double above = 0;  // sum of the ranks of those above 0
  double p = 1;      // 1 if all are 0
  bool exact = true;
};
// Exact up to kExactRanks differences, zeros included: all assignments of signs to these ranks, ties or not. Beyond, by
// the normal distribution with the variance that zeros and ties leave, without correction for continuity.
inline constexpr size_t kExactRanks = 50;
SignedRank signed_rank(std::span<const double> differences);

// Holm's step-down correction (Scandinavian Journal of Statistics 6, 1979): p[i] so that all with p <= alpha can be
// rejected and the chance of any wrong one is at most alpha. In the order given.
std::vector<double> holm(std::span<const double> p);

// The two-sided level at which Holm's procedure with this alpha judges each of the tests: alpha / (m - k) for the one
// with the k-th least p (from 0), up to the first that is not rejected, whose level the rest share. An interval at this
// level excludes 0 exactly where the corrected p is at most alpha, if p is of the same statistic.
std::vector<double> holm_levels(std::span<const double> p, double alpha);

// The mean of differences that come in clusters: those of a cluster may depend on each other, clusters do not.
struct ClusteredMean {
  int64_t count = 0, clusters = 0;
  double mean = 0;
  double low = 0, high = 0;  // the interval of the confidence asked for; the mean itself with one cluster
  double error = 0;          // standard error
  double p = 1;              // that the true mean is 0, two-sided, by Student's t of mean / error
  // mean -+ student_quantile(1 - level / 2) error, for levels too small for percentiles of resamples.
  double half_width(double level) const;
};

struct BootstrapOptions {
  double confidence = 0.95;
  int resamples = 5000;
  uint64_t seed = 0;
};

// The bootstrap of the mean by clusters: whole clusters are drawn with replacement, as many as there are, and the mean
// of their differences is taken. The interval is that of percentiles, expanded for the few clusters there are: at the
// shares Phi(-sqrt(k / (k - 1)) t), where t is Student's quantile with k - 1 degrees of freedom (Hesterberg, The
// American Statistician 69, 2015, section 5.2), held inside the resamples' range. `error` is the resamples' standard
// deviation times sqrt(k / (k - 1)). With fewer than kLeastClusters p is 1: too few to tell, and the interval is the
// resamples' range.
//
// cluster[i]: of differences[i], 0 to any number; those that have no difference do not count. Beyond kMostClusters,
// clusters are taken together in turn (the first with number kMostClusters, 2 kMostClusters, ...), which leaves the
// mean and its error as they are expected.
inline constexpr int64_t kLeastClusters = 5;
inline constexpr int64_t kMostClusters = 250;
ClusteredMean clustered_mean(std::span<const double> differences, std::span<const int64_t> cluster,
                             const BootstrapOptions& options);

}  // namespace sparkpilot

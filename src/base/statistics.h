// Statistics of a series of measurements.
#pragma once

#include <cstdint>
#include <span>

namespace sparkpilot {

struct Statistics {
  int64_t count = 0;
  double mean = 0, min = 0, max = 0;
  // Percentiles: the smallest sample that at least that share of all samples does not exceed (nearest rank).
  double p50 = 0, p90 = 0, p99 = 0;
};

// All zero for no samples.
Statistics summarize(std::span<const double> samples);

// The middle of the sorted samples, or the mean of the two in the middle. 0 for no samples.
double median(std::span<const double> samples);

// The ratio of two things that were measured in turns, round by round.
struct Ratio {
  int64_t rounds = 0;
  double median = 0;
  // With a probability of at least 90 %, or as asked for, if the rounds are independent, the true median lies between
  // these: they are order statistics of the rounds' ratios (the binomial interval of the sign test), so nothing is
  // assumed of their distribution. With too few rounds (fewer than five for 90 %, eight for 99 %) they are the least
  // and the greatest, which says less.
  double low = 0, high = 0;
};

// Of ours[i] / theirs[i]: positive, and as many of each. All zero for no rounds. `confidence`: above 0, below 1.
Ratio ratio_of(std::span<const double> ours, std::span<const double> theirs, double confidence = 0.9);

// x such that a normal variable of mean 0 and variance 1 is below it with this probability, above 0 and below 1.
double normal_quantile(double probability);

// k such that at least `share` of a normal population lies below mean + k * deviation of `count` independent samples of
// it, with a probability of `confidence`: the factor of the one-sided tolerance limit, as in M. G. Natrella,
// "Experimental Statistics" (NBS Handbook 91, 1963), section 2-2.3, within 2 % of the exact one from eight samples on.
// At least three samples, which need not be a whole number; both probabilities above 0.5 and below 1.
double tolerance_factor(double count, double share, double confidence);

}  // namespace sparkpilot

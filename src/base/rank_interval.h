// How much larger the numbers of one sample are than those of another that was taken independently, as a ratio.
#pragma once

#include <cstddef>
#include <span>

namespace sparkpilot {

struct RatioInterval {
  double ratio = 0;          // the median of all ours[i] / theirs[j] (Hodges and Lehmann's estimate, of logarithms)
  double low = 0, high = 0;  // 0 and infinity if the samples are too small for the confidence
};

// The interval holds the true ratio with a probability of at least `confidence` (0 to 1, exclusive) if the numbers are
// independent and both distributions are the same but for a factor; nothing else is assumed of them. It inverts the
// Wilcoxon-Mann-Whitney test: order statistics of the ratios (Hollander and Wolfe, Nonparametric Statistical Methods,
// 4.3). Numbers above 0; fails (internal) if a sample is empty.
RatioInterval ratio_interval(std::span<const double> ours, std::span<const double> theirs, double confidence);

// k, if the k-th least and the k-th greatest of the m n ratios of samples of m and n numbers are the ends of that
// interval: the largest for which P(U < k) <= (1 - confidence) / 2, where U is Mann and Whitney's statistic if there is
// no difference; 0 if no interval is that wide. Exact up to m n = 10,000, by the normal distribution beyond.
size_t rank_of_ends(size_t m, size_t n, double confidence);

}  // namespace sparkpilot

#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace sparkpilot {

Statistics summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto size = static_cast<double>(sorted.size());
  const auto percentile = [&](double share) {
    const double rank = std::ceil(share * size - 1e-9);  // 0.9 x 10 is a little more than 9
    return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  return {.count = static_cast<int64_t>(sorted.size()),
          .mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / size,
          .min = sorted.front(),
          .max = sorted.back(),
          .p50 = percentile(0.5),
          .p90 = percentile(0.9),
          .p99 = percentile(0.99)};
}

double median(std::span<const double> samples) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double normal_quantile(double probability) {
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {  // bisection of the error function
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
  }
  return low;
}

double tolerance_factor(double count, double share, double confidence) {
  if (!(count >= 3)) fail_internal("a tolerance limit of {} samples", count);
  const double covered = normal_quantile(share), sure = normal_quantile(confidence);
  const double a = 1 - sure * sure / (2 * (count - 1)), b = covered * covered - sure * sure / count;
  return (covered + std::sqrt(std::max(0.0, covered * covered - a * b))) / a;
}

namespace {

// How many of the least, and as many of the greatest, of n samples lie outside the interval: the most for which the
// true median is below it with a probability of at most `beyond`, and above it as well.
size_t left_out(size_t n, double beyond) {
  if (n > 500) {  // the binomial distribution is a normal one to within less than a sample
    const double half = static_cast<double>(n) / 2;
    return static_cast<size_t>(std::max(1.0, half + normal_quantile(beyond) * std::sqrt(half / 2))) - 1;
  }
  double chance = std::pow(0.5, static_cast<double>(n)), below = chance;  // that none lies below the median
  for (size_t k = 1;; ++k) {
    chance *= static_cast<double>(n - k + 1) / static_cast<double>(k);  // that k samples do
    below += chance;
    if (below > beyond) return k - 1;
  }
}

}  // namespace

Ratio ratio_of(std::span<const double> ours, std::span<const double> theirs, double confidence) {
  if (ours.size() != theirs.size()) fail_internal("a ratio of {} rounds and {}", ours.size(), theirs.size());
  if (ours.empty()) return {};
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  std::sort(ratios.begin(), ratios.end());
  const size_t out = left_out(ratios.size(), (1 - confidence) / 2);
  return {.rounds = static_cast<int64_t>(ratios.size()),
          .median = median(ratios),
          .low = ratios[out],
          .high = ratios[ratios.size() - 1 - out]};
}

}  // namespace sparkpilot

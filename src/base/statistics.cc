#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

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

}  // namespace sparkpilot

#include "base/rank_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/statistics.h"

namespace sparkpilot {
namespace {

// The distribution of U for samples of m and n, by its recurrence: the largest of all numbers belongs to the first
// sample with a probability of m / (m + n), and then exceeds n others.
std::vector<double> mann_whitney(size_t m, size_t n) {
  std::vector<std::vector<double>> before(n + 1, {1.0}), now(n + 1);  // [i]: of j and i numbers
  for (size_t j = 1; j <= m; ++j) {
    now[0] = {1.0};
    for (size_t i = 1; i <= n; ++i) {
      std::vector<double>& out = now[i];
      out.assign(j * i + 1, 0.0);
      const double ours = static_cast<double>(j) / static_cast<double>(j + i);
      for (size_t u = 0; u < before[i].size(); ++u) out[u + i] += ours * before[i][u];
      for (size_t u = 0; u < now[i - 1].size(); ++u) out[u] += (1 - ours) * now[i - 1][u];
    }
    std::swap(before, now);
  }
  return before[n];
}

}  // namespace

size_t rank_of_ends(size_t m, size_t n, double confidence) {
  constexpr size_t kExact = 10'000;
  const double beyond = (1 - confidence) / 2;
  if (m * n > kExact) {
    const auto product = static_cast<double>(m) * static_cast<double>(n);
    const double deviation = std::sqrt(product * static_cast<double>(m + n + 1) / 12);
    return static_cast<size_t>(std::max(0.0, std::floor(product / 2 + normal_quantile(beyond) * deviation)));
  }
  double below = 0;
  size_t rank = 0;
  for (const double chance : mann_whitney(m, n)) {
    below += chance;
    if (below > beyond * (1 + 1e-9)) break;  // sums of rounded chances
    ++rank;
  }
  return rank;
}

RatioInterval ratio_interval(std::span<const double> ours, std::span<const double> theirs, double confidence) {
  if (ours.empty() || theirs.empty()) fail_internal("a ratio of {} numbers and {}", ours.size(), theirs.size());
  std::vector<double> ratios;
  ratios.reserve(ours.size() * theirs.size());
  for (const double a : ours) {
    for (const double b : theirs) ratios.push_back(a / b);
  }
  std::sort(ratios.begin(), ratios.end());
  RatioInterval out{median(ratios), 0, std::numeric_limits<double>::infinity()};
  if (const size_t rank = rank_of_ends(ours.size(), theirs.size(), confidence); rank > 0) {
    out.low = ratios[rank - 1];
    out.high = ratios[ratios.size() - rank];
  }
  return out;
}

}  // namespace sparkpilot

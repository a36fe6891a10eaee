#include "base/paired.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"

namespace sparkpilot {
namespace {

void check_finite(std::span<const double> numbers) {
  for (const double x : numbers) {
    if (!std::isfinite(x)) fail_internal("statistics of {}", x);
  }
}

double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// The continued fraction of the incomplete beta function (Numerical Recipes, 6.4), by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), out = d;
  for (int m = 1; m < 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    out *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    out *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return out;
}

// I_x(a, b), with y = 1 - x given apart: near 1 it is all that x still says.
double incomplete_beta(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, y, x);
  const double factor = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(y);
  return std::exp(factor) * beta_fraction(a, b, x) / a;
}

// Ranks from 1 of the absolute values in rising order, doubled so that the mean rank of ties is whole.
struct Ranked {
  std::vector<int64_t> doubled;  // of those that are not 0
  std::vector<bool> above;
  double ties = 0;  // sum of t^3 - t over groups of t equal ones that are not 0
  int64_t zeros = 0;
};

Ranked ranked(std::span<const double> differences) {
  std::vector<double> sorted(differences.begin(), differences.end());
  std::ranges::sort(sorted, [](double a, double b) { return std::abs(a) < std::abs(b); });
  Ranked out;
  for (size_t i = 0; i < sorted.size();) {
    size_t end = i + 1;
    while (end < sorted.size() && std::abs(sorted[end]) == std::abs(sorted[i])) ++end;
    const auto tied = static_cast<double>(end - i);
    if (sorted[i] == 0) out.zeros = static_cast<int64_t>(end - i);
    else out.ties += tied * tied * tied - tied;
    for (size_t k = i; k < end && sorted[i] != 0; ++k) {
      out.doubled.push_back(static_cast<int64_t>(i + 1 + end));
      out.above.push_back(sorted[k] > 0);
    }
    i = end;
  }
  return out;
}

// P of a sum of ranks as far from its mean as this one, or farther, if every sign is as likely as the other.
double exact_p(const std::vector<int64_t>& doubled, int64_t sum) {
  const int64_t total = std::accumulate(doubled.begin(), doubled.end(), int64_t{0});
  std::vector<double> chance(static_cast<size_t>(total) + 1, 0.0);
  chance[0] = 1;
  int64_t reached = 0;
  for (const int64_t rank : doubled) {
    reached += rank;
    for (int64_t s = reached; s >= 0; --s) {
      const double with = s >= rank ? chance[static_cast<size_t>(s - rank)] : 0.0;
      chance[static_cast<size_t>(s)] = (chance[static_cast<size_t>(s)] + with) / 2;
    }
  }
  const int64_t least = std::min(sum, total - sum);
  double below = 0;
  for (int64_t s = 0; s <= least; ++s) below += chance[static_cast<size_t>(s)];
  return std::min(1.0, 2 * below);
}

// A cluster's share of the mean.
struct Part {
  double sum = 0;
  int64_t count = 0;
};

std::vector<Part> parts_of(std::span<const double> differences, std::span<const int64_t> cluster) {
  int64_t most = -1;
  for (const int64_t c : cluster) {
    if (c < 0) fail_internal("cluster {}", c);
    most = std::max(most, c);
  }
  std::vector<Part> all(static_cast<size_t>(most + 1));
  for (size_t i = 0; i < differences.size(); ++i) {
    Part& part = all[static_cast<size_t>(cluster[i])];
    part.sum += differences[i];
    ++part.count;
  }
  std::erase_if(all, [](const Part& part) { return part.count == 0; });
  const auto limit = static_cast<size_t>(kMostClusters);
  for (size_t i = limit; i < all.size(); ++i) {
    all[i % limit].sum += all[i].sum;
    all[i % limit].count += all[i].count;
  }
  if (all.size() > limit) all.resize(limit);
  return all;
}

// The mean of one resample: number r of the seed's.
double resample(const std::vector<Part>& parts, uint64_t seed, int64_t r) {
  Part drawn;
  const uint64_t blocks = (parts.size() + 3) / 4;
  for (uint64_t b = 0; b < blocks; ++b) {
    const auto words = philox4x32(seed, static_cast<uint64_t>(r) * blocks + b);
    for (size_t w = 0; w < 4 && 4 * b + w < parts.size(); ++w) {
      const Part& part = parts[static_cast<size_t>((uint64_t{words[w]} * parts.size()) >> 32)];
      drawn.sum += part.sum;
      drawn.count += part.count;
    }
  }
  return drawn.sum / static_cast<double>(drawn.count);
}

}  // namespace

double interquartile_mean(std::span<const double> samples) {
  check_finite(samples);
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  const auto out = static_cast<int64_t>(sorted.size() / 4);
  return std::accumulate(sorted.begin() + out, sorted.end() - out, 0.0) /
         static_cast<double>(static_cast<int64_t>(sorted.size()) - 2 * out);
}

double student_cdf(double t, double freedom) {
  const double square = t * t;
  if (!(square < std::numeric_limits<double>::infinity())) return t > 0 ? 1 : 0;
  const double tail = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square)) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_quantile(double probability, double freedom) {
  if (probability > 0.5) return -student_quantile(1 - probability, freedom);
  double low = -1, high = 0;
  while (low > -1e150 && student_cdf(low, freedom) > probability) high = low, low *= 2;
  while (low < high) {
    const double middle = (low + high) / 2;
    if (middle == low || middle == high || high - low < -1e-14 * low) break;
    (student_cdf(middle, freedom) < probability ? low : high) = middle;
  }
  return high;
}

SignedRank signed_rank(std::span<const double> differences) {
  check_finite(differences);
  const Ranked ranks = ranked(differences);
  SignedRank out{.used = static_cast<int64_t>(ranks.doubled.size())};
  if (out.used == 0) return out;
  int64_t above = 0;
  for (size_t i = 0; i < ranks.doubled.size(); ++i) above += ranks.above[i] ? ranks.doubled[i] : 0;
  out.above = static_cast<double>(above) / 2;
  if (differences.size() <= kExactRanks) {
    out.p = exact_p(ranks.doubled, above);
    return out;
  }
  const auto n = static_cast<double>(differences.size()), z = static_cast<double>(ranks.zeros);
  const double mean = (n * (n + 1) - z * (z + 1)) / 4;
  const double variance = (n * (n + 1) * (2 * n + 1) - z * (z + 1) * (2 * z + 1)) / 24 - ranks.ties / 48;
  out.exact = false;
  out.p = std::min(1.0, 2 * normal_cdf(-std::abs(out.above - mean) / std::sqrt(variance)));
  return out;
}

namespace {

std::vector<size_t> rising(std::span<const double> p) {
  check_finite(p);
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p[a] < p[b]; });
  return order;
}

}  // namespace

std::vector<double> holm(std::span<const double> p) {
  std::vector<double> out(p.size());
  double least = 0;
  size_t left = p.size();
  for (const size_t i : rising(p)) {
    least = std::max(least, std::min(1.0, p[i] * static_cast<double>(left--)));
    out[i] = least;
  }
  return out;
}

std::vector<double> holm_levels(std::span<const double> p, double alpha) {
  std::vector<double> out(p.size());
  size_t left = p.size();
  bool rejected = true;
  double level = alpha;
  for (const size_t i : rising(p)) {
    if (rejected) {
      level = alpha / static_cast<double>(left--);
      rejected = p[i] <= level;
    }
    out[i] = level;
  }
  return out;
}

double ClusteredMean::half_width(double level) const {
  return clusters < 2 || error == 0 ? 0 : error * student_quantile(1 - level / 2, static_cast<double>(clusters - 1));
}

ClusteredMean clustered_mean(std::span<const double> differences, std::span<const int64_t> cluster,
                             const BootstrapOptions& options) {
  if (differences.size() != cluster.size()) {
    fail_internal("{} differences and {} clusters", differences.size(), cluster.size());
  }
  if (!(options.confidence > 0 && options.confidence < 1) || options.resamples < 1) {
    fail_internal("a bootstrap of {} resamples at {}", options.resamples, options.confidence);
  }
  check_finite(differences);
  const std::vector<Part> parts = parts_of(differences, cluster);
  ClusteredMean out{.count = static_cast<int64_t>(differences.size()), .clusters = static_cast<int64_t>(parts.size())};
  if (parts.empty()) return out;
  for (const Part& part : parts) out.mean += part.sum;
  out.mean /= static_cast<double>(out.count);
  out.low = out.high = out.mean;
  if (parts.size() == 1) return out;

  std::vector<double> means(static_cast<size_t>(options.resamples));
  parallel_for(options.resamples, std::max<int64_t>(1, 20'000 / out.clusters), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) means[static_cast<size_t>(r)] = resample(parts, options.seed, r);
  });
  std::ranges::sort(means);
  const auto k = static_cast<double>(parts.size());
  const double expanded = std::sqrt(k / (k - 1));
  const double center = std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(means.size());
  double squares = 0;
  for (const double mean : means) squares += (mean - center) * (mean - center);
  out.error = expanded * std::sqrt(squares / static_cast<double>(means.size()));

  const double t = student_quantile((1 + options.confidence) / 2, k - 1);
  const double share = out.clusters < kLeastClusters ? 0 : normal_cdf(-expanded * t);
  const auto left_out = std::min(static_cast<size_t>(share * static_cast<double>(means.size())), means.size() / 2);
  out.low = std::min(out.mean, means[left_out]);
  out.high = std::max(out.mean, means[means.size() - 1 - left_out]);
  if (out.clusters >= kLeastClusters && out.mean != 0) {
    out.p = out.error > 0 ? std::min(1.0, 2 * student_cdf(-std::abs(out.mean) / out.error, k - 1)) : 0;
  }
  return out;
}

}  // namespace sparkpilot

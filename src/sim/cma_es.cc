#include "sim/cma_es.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace sparkpilot::sim {
namespace {

using Vector = std::vector<double>;

double norm(const Vector& v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); }

// Eigenvalues of a symmetric matrix on its diagonal, eigenvectors in the columns of `basis`: Jacobi's rotations.
void diagonalize(size_t n, Vector& a, Vector& basis) {
  basis.assign(n * n, 0);
  for (size_t i = 0; i < n; ++i) basis[i * n + i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) (i == k ? all : off) += a[i * n + k] * a[i * n + k];
    }
    if (off <= 1e-30 * all) return;
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = basis[k * n + p], y = basis[k * n + q];
          basis[k * n + p] = c * x - s * y;
          basis[k * n + q] = s * x + c * y;
        }
      }
    }
  }
}

// basis diag(scale) basis' v
Vector along_axes(size_t n, const Vector& basis, const Vector& scale, const Vector& v) {
  Vector out(n, 0.0);
  for (size_t axis = 0; axis < n; ++axis) {
    double along = 0;
    for (size_t i = 0; i < n; ++i) along += basis[i * n + axis] * v[i];
    for (size_t i = 0; i < n; ++i) out[i] += basis[i * n + axis] * along * scale[axis];
  }
  return out;
}

Vector inverse(const Vector& lengths) {
  Vector out;
  for (const double length : lengths) out.push_back(1 / length);
  return out;
}

}  // namespace

CmaEs::CmaEs(Options options)
    : n_(options.start.size()),
      population_(options.population),
      first_sigma_(options.sigma),
      sigma_(options.sigma),
      random_(options.seed),
      mean_(std::move(options.start)),
      path_c_(n_, 0.0),
      path_sigma_(n_, 0.0) {
  if (n_ == 0) fail("a search over no numbers");
  if (!(sigma_ > 0) || !std::isfinite(sigma_)) fail("a search with standard deviation {}, expected above 0", sigma_);
  const auto n = static_cast<double>(n_);
  if (population_ == 0) population_ = 4 + static_cast<int>(3 * std::log(n));
  if (population_ < 4) fail("a population of {}, expected at least 4", population_);

  // Table 1 and equations 49 to 58.
  double above = 0, above_squares = 0, below = 0, below_squares = 0;
  for (int i = 0; i < population_; ++i) {
    const double raw = std::log((population_ + 1) / 2.0) - std::log(i + 1.0);
    weights_.push_back(raw);
    const bool parent = i < population_ / 2;
    (parent ? above : below) += raw;
    (parent ? above_squares : below_squares) += raw * raw;
  }
  effective_ = above * above / above_squares;
  const double effective_below = below * below / below_squares;
  c_c_ = (4 + effective_ / n) / (n + 4 + 2 * effective_ / n);
  c_1_ = 2 / ((n + 1.3) * (n + 1.3) + effective_);
  c_mu_ = std::min(1 - c_1_, 2 * (0.25 + effective_ + 1 / effective_ - 2) / ((n + 2) * (n + 2) + effective_));
  c_sigma_ = (effective_ + 2) / (n + effective_ + 5);
  damping_ = 1 + 2 * std::max(0.0, std::sqrt((effective_ - 1) / (n + 1)) - 1) + c_sigma_;
  expected_ = std::sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
  const double least =
      std::min({1 + c_1_ / c_mu_, 1 + 2 * effective_below / (effective_ + 2), (1 - c_1_ - c_mu_) / (n * c_mu_)});
  for (int i = 0; i < population_; ++i) {
    double& weight = weights_[static_cast<size_t>(i)];
    weight *= i < population_ / 2 ? 1 / above : least / std::abs(below);
  }
  covariance_.assign(n_ * n_, 0.0);
  for (size_t i = 0; i < n_; ++i) covariance_[i * n_ + i] = 1;
  decompose();
}

void CmaEs::decompose() {
  Vector diagonal = covariance_;
  diagonalize(n_, diagonal, basis_);
  lengths_.clear();
  for (size_t i = 0; i < n_; ++i) lengths_.push_back(std::sqrt(std::max(diagonal[i * n_ + i], 1e-300)));
}

const std::vector<Vector>& CmaEs::ask() {
  if (!asked_.empty()) return asked_;
  steps_.clear();
  for (int k = 0; k < population_; ++k) {
    Vector normal;
    for (size_t i = 0; i < n_; ++i) normal.push_back(random_.normal() * lengths_[i]);
    Vector step(n_, 0.0), point;
    for (size_t i = 0; i < n_; ++i) {
      for (size_t axis = 0; axis < n_; ++axis) step[i] += basis_[i * n_ + axis] * normal[axis];
      point.push_back(mean_[i] + sigma_ * step[i]);
    }
    steps_.push_back(std::move(step));
    asked_.push_back(std::move(point));
  }
  return asked_;
}

void CmaEs::tell(std::span<const double> values) {
  if (asked_.empty() || values.size() != asked_.size()) {
    fail_internal("{} values of {} points", values.size(), asked_.size());
  }
  Vector ranked;
  for (const double value : values)
    ranked.push_back(std::isfinite(value) ? value : std::numeric_limits<double>::infinity());
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ranked[i]; });
  if (std::isfinite(ranked[order[0]]) && (!best_ || ranked[order[0]] < best_->value)) {
    best_ = Best{asked_[order[0]], ranked[order[0]]};
  }
  recent_.push_back(ranked[order[0]]);
  const auto kept = 10 + static_cast<size_t>(std::ceil(30.0 * static_cast<double>(n_) / population_));
  if (recent_.size() > kept) recent_.erase(recent_.begin());

  const auto parents = static_cast<size_t>(population_ / 2);
  Vector moved(n_, 0.0);
  for (size_t k = 0; k < parents; ++k) {
    for (size_t i = 0; i < n_; ++i) moved[i] += weights_[k] * steps_[order[k]][i];
  }
  const Vector shrink = inverse(lengths_);
  const Vector whitened = along_axes(n_, basis_, shrink, moved);
  const double of_sigma = std::sqrt(c_sigma_ * (2 - c_sigma_) * effective_);
  for (size_t i = 0; i < n_; ++i) {
    mean_[i] += sigma_ * moved[i];
    path_sigma_[i] = (1 - c_sigma_) * path_sigma_[i] + of_sigma * whitened[i];
  }
  const double length = norm(path_sigma_);
  ++generation_;
  const double settled = std::sqrt(1 - std::pow(1 - c_sigma_, 2.0 * static_cast<double>(generation_)));
  const bool rising = length / settled >= (1.4 + 2 / (static_cast<double>(n_) + 1)) * expected_;
  const double of_c = rising ? 0 : std::sqrt(c_c_ * (2 - c_c_) * effective_);
  for (size_t i = 0; i < n_; ++i) path_c_[i] = (1 - c_c_) * path_c_[i] + of_c * moved[i];

  double keep = 1 - c_1_ + (rising ? c_1_ * c_c_ * (2 - c_c_) : 0);
  Vector used = weights_;
  for (size_t k = 0; k < used.size(); ++k) {
    keep -= c_mu_ * weights_[k];
    if (k < parents) continue;
    const double size = norm(along_axes(n_, basis_, shrink, steps_[order[k]]));
    used[k] *= static_cast<double>(n_) / std::max(size * size, 1e-300);
  }
  for (size_t i = 0; i < n_; ++i) {
    for (size_t j = 0; j < n_; ++j) {
      double& entry = covariance_[i * n_ + j];
      entry = keep * entry + c_1_ * path_c_[i] * path_c_[j];
      for (size_t k = 0; k < used.size(); ++k) {
        entry += c_mu_ * used[k] * steps_[order[k]][i] * steps_[order[k]][j];
      }
    }
  }
  sigma_ *= std::exp(std::min(1.0, c_sigma_ / damping_ * (length / expected_ - 1)));
  decompose();
  asked_.clear();
}

std::string_view CmaEs::stop() const {
  const auto [least, most] = std::ranges::minmax(lengths_);
  if (most > 1e7 * least) return "the covariance is degenerate";
  if (sigma_ * most < 1e-11 * first_sigma_) return "steps are tiny";
  if (sigma_ * most > 1e6 * first_sigma_) return "steps grow without end";
  const auto kept = 10 + static_cast<size_t>(std::ceil(30.0 * static_cast<double>(n_) / population_));
  if (recent_.size() == kept) {
    const auto [low, high] = std::ranges::minmax(recent_);
    if (!(high - low > 1e-12 * std::max(1e-12, std::abs(low)))) return "values do not change";
  }
  return {};
}

}  // namespace sparkpilot::sim

#include "sim/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/paired.h"
#include "base/random.h"
#include "base/statistics.h"

namespace sparkpilot::sim {
namespace {

using Vector = std::vector<double>;

// A symmetric matrix of n rows and a right-hand side.
struct Normal {
  Vector matrix, side;
  explicit Normal(size_t n) : matrix(n * n), side(n) {}
  void add(const Normal& other) {
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] += other.matrix[i];
    for (size_t i = 0; i < side.size(); ++i) side[i] += other.side[i];
  }
};

// The solution of (matrix + damping diag(matrix)) x = side by Cholesky's decomposition of the matrix scaled to a
// diagonal of ones; false if that is not positive definite.
bool solve(const Normal& in, double damping, Vector& x) {
  const size_t n = in.side.size();
  Vector l(n * n), scale(n);
  for (size_t i = 0; i < n; ++i) {
    const double d = in.matrix[i * n + i];
    if (!(d > 0) || !std::isfinite(d)) return false;
    scale[i] = 1 / std::sqrt(d);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = in.matrix[i * n + j] * scale[i] * scale[j] + (i == j ? damping : 0);
      for (size_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      if (i != j) l[i * n + j] = sum / l[j * n + j];
      else if (sum > 1e-10) l[i * n + i] = std::sqrt(sum);
      else return false;
    }
  }
  x.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    double sum = in.side[i] * scale[i];
    for (size_t k = 0; k < i; ++k) sum -= l[i * n + k] * x[k];
    x[i] = sum / l[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    double sum = x[i];
    for (size_t k = i + 1; k < n; ++k) sum -= l[k * n + i] * x[k];
    x[i] = sum / l[i * n + i];
  }
  for (size_t i = 0; i < n; ++i) x[i] *= scale[i];
  return true;
}

double deviation_of(const Vector& residuals) {
  Vector sizes(residuals.size());
  std::ranges::transform(residuals, sizes.begin(), [](double r) { return std::abs(r); });
  const double middle = median(sizes) / 0.6745;  // of normal numbers, the standard deviation
  double squares = 0;
  for (const double r : residuals) squares += r * r;
  return middle > 0 ? middle : std::sqrt(squares / static_cast<double>(residuals.size()));
}

double weight_of(double residual, double bound) {
  const double size = std::abs(residual);
  return size <= bound ? 1 : bound / size;
}

double cost_of(const Vector& residuals, double bound) {
  double sum = 0;
  for (const double r : residuals) {
    const double size = std::abs(r);
    sum += size <= bound ? r * r : bound * (2 * size - bound);
  }
  return std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();
}

// J^T W J and -J^T W r of each block, by central differences.
std::vector<Normal> normals_of(std::span<const FitParameter> parameters, const Residuals& residuals,
                               std::span<const size_t> block, size_t blocks, const Vector& values, const Vector& at,
                               double bound) {
  const size_t n = parameters.size();
  std::vector<Vector> columns(n);
  Vector below;
  for (size_t p = 0; p < n; ++p) {
    Vector moved = values;
    const double low = std::max(values[p] - parameters[p].step, parameters[p].low);
    const double high = std::min(values[p] + parameters[p].step, parameters[p].high);
    moved[p] = low;
    residuals(moved, below);
    moved[p] = high;
    residuals(moved, columns[p]);
    for (size_t i = 0; i < at.size(); ++i) columns[p][i] = (columns[p][i] - below[i]) / (high - low);
  }
  std::vector<Normal> out(blocks, Normal(n));
  for (size_t i = 0; i < at.size(); ++i) {
    Normal& normal = out[block[i]];
    const double weight = weight_of(at[i], bound);
    for (size_t p = 0; p < n; ++p) {
      const double j = weight * columns[p][i];
      normal.side[p] -= j * at[i];
      for (size_t q = 0; q <= p; ++q) normal.matrix[p * n + q] += j * columns[q][i];
    }
  }
  for (Normal& normal : out) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) normal.matrix[p * n + q] = normal.matrix[q * n + p];
    }
  }
  return out;
}

Normal sum_of(const std::vector<Normal>& normals) {
  Normal sum(normals.front().side.size());
  for (const Normal& normal : normals) sum.add(normal);
  return sum;
}

void bootstrap(const std::vector<Normal>& normals, const FitOptions& options, FitResult& out) {
  const size_t n = out.values.size(), k = normals.size();
  const double infinity = std::numeric_limits<double>::infinity();
  Vector sums(n), squares(n);
  Random random(options.seed);
  bool determined = k >= 3 && options.resamples > 0;
  for (int i = 0; i < options.resamples && determined; ++i) {
    Normal drawn(n);
    for (size_t b = 0; b < k; ++b) drawn.add(normals[static_cast<size_t>(random.integer(0, std::ssize(normals) - 1))]);
    Vector change;
    determined = solve(drawn, 0, change);
    for (size_t p = 0; p < n && determined; ++p) sums[p] += change[p], squares[p] += change[p] * change[p];
  }
  const double blocks = static_cast<double>(k), draws = options.resamples;
  for (size_t p = 0; p < n; ++p) {
    double half = infinity;
    if (determined) {
      const double variance = std::max(squares[p] / draws - sums[p] * sums[p] / (draws * draws), 0.0);
      half = student_quantile(0.5 + options.confidence / 2, blocks - 1) * std::sqrt(variance * blocks / (blocks - 1));
    }
    out.low.push_back(out.values[p] - half);
    out.high.push_back(out.values[p] + half);
  }
}

}  // namespace

double fit_cost(std::span<const double> values, const Residuals& residuals) {
  Vector at;
  residuals(values, at);
  return cost_of(at, std::numeric_limits<double>::infinity());
}

FitResult fit_least_squares(std::span<const FitParameter> parameters, const Residuals& residuals,
                            std::span<const int64_t> block, const FitOptions& options) {
  if (block.empty() || parameters.empty()) fail_internal("sim: a fit without residuals or parameters");
  std::map<int64_t, size_t> numbers;
  std::vector<size_t> block_of;
  for (const int64_t name : block) block_of.push_back(numbers.try_emplace(name, numbers.size()).first->second);

  FitResult out;
  for (const FitParameter& parameter : parameters) out.values.push_back(parameter.start);
  out.blocks = std::ssize(numbers);
  Vector at;
  residuals(out.values, at);
  constexpr int kIdle = 5;
  int idle = 0;  // steps in a row that hardly helped
  double damping = 1e-3;
  for (int iteration = 0; iteration < options.most_iterations && !out.converged; ++iteration) {
    const double bound = options.outlier * deviation_of(at), cost = cost_of(at, bound);
    const Normal normal = sum_of(normals_of(parameters, residuals, block_of, numbers.size(), out.values, at, bound));
    bool better = false;
    while (!better && damping < 1e9) {
      Vector change, moved = out.values, then;
      if (solve(normal, damping, change)) {
        for (size_t p = 0; p < moved.size(); ++p)
          moved[p] = std::clamp(moved[p] + change[p], parameters[p].low, parameters[p].high);
        residuals(moved, then);
        const double moved_cost = cost_of(then, bound);
        if (moved_cost <= cost) {
          better = true;
          // A short step that hardly helps says nothing, but several in a row do: at a kink of the residuals only short
          // ones help.
          idle = cost - moved_cost <= 1e-9 * cost ? idle + 1 : 0;
          out.converged = idle > 0 && (damping <= 1e-2 || idle == kIdle);
          out.values = std::move(moved);
          at = std::move(then);
        }
      }
      damping = better ? std::max(damping / 10, 1e-9) : damping * 4;
    }
    if (!better) {  // no step makes it better: this is the bottom
      out.converged = true;
      damping = 1e-3;
    }
  }
  out.deviation = deviation_of(at);
  const double bound = options.outlier * out.deviation;
  out.cost = cost_of(at, bound);
  bootstrap(normals_of(parameters, residuals, block_of, numbers.size(), out.values, at, bound), options, out);
  return out;
}

}  // namespace sparkpilot::sim

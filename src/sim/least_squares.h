// Nonlinear least squares for a handful of parameters, robust against outliers, with intervals for residuals that
// depend on their neighbours in time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sparkpilot::sim {

struct FitParameter {
  double start = 0, low = 0, high = 0;  // estimates stay in [low, high]
  double step = 1e-4;                   // of the differences that derivatives are taken by
};

struct FitOptions {
  int most_iterations = 60;
  double outlier = 3;    // residuals beyond this many standard deviations (by their median) weigh as |.|, not squared
  int resamples = 1000;  // 0: no intervals
  uint64_t seed = 0;
  double confidence = 0.95;
};

struct FitResult {
  std::vector<double> values;     // of the parameters
  std::vector<double> low, high;  // intervals; infinite if the data do not determine a parameter
  double cost = 0;                // sum of the squares, outliers weighing less
  double deviation = 0;           // of the residuals, by their median
  int64_t blocks = 0;             // that the data were divided into
  bool converged = false;
};

// Fills `out`, of as many numbers as there are residuals each time, from the parameters' values.
using Residuals = std::function<void(std::span<const double> values, std::vector<double>& out)>;

// Levenberg and Marquardt's method with Huber's weights. `block[i]` numbers the stretch of some seconds that residual i
// lies in: residuals of different blocks are taken as independent. Intervals are those of a block bootstrap: whole
// blocks are drawn with replacement, as many as there are, and one Gauss-Newton step from the estimate is the draw's
// estimate; they are value -+ t sd sqrt(k / (k - 1)) with Student's quantile of k - 1 degrees of freedom. The same on
// any number of threads. Fails (internal) if there are no residuals.
FitResult fit_least_squares(std::span<const FitParameter> parameters, const Residuals& residuals,
                            std::span<const int64_t> block, const FitOptions& options = {});

// The least cost with the parameters as they start: to choose among starts.
double fit_cost(std::span<const double> values, const Residuals& residuals);

}  // namespace sparkpilot::sim

// CMA-ES: search for the least value of a function of a few real numbers, noisy and without derivatives (Hansen, "The
// CMA evolution strategy: a tutorial", arXiv 1604.00772, with negative weights; its appendix A's defaults).
//
// Deterministic: the same options and values give the same points, so a search is continued by telling it its earlier
// values again. One thread uses an object at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace sparkpilot::sim {

class CmaEs {
 public:
  struct Options {
    std::vector<double> start;  // at least one number; all should vary by about the same for a similar change of value
    double sigma = 0.3;         // first standard deviation of each: a quarter to a third of where the least may lie
    int population = 0;         // points of a generation, at least 4; 0: 4 + floor(3 ln n)
    uint64_t seed = 0;
  };
  explicit CmaEs(Options options);

  // The points of this generation; the same ones until tell().
  const std::vector<std::vector<double>>& ask();
  // Their values, in their order; NaN and infinite ones rank last.
  void tell(std::span<const double> values);

  int64_t generation() const { return generation_; }
  // The point with the least value so far, and it; empty before the first finite one.
  struct Best {
    std::vector<double> point;
    double value = 0;
  };
  const std::optional<Best>& best() const { return best_; }
  const std::vector<double>& mean() const { return mean_; }
  // Why to stop; empty: go on. Steps of less than 1e-11 of the first sigma, values that are all the same in
  // 10 + ceil(30 n / population) generations, an axis more than 1e7 times as long as another.
  std::string_view stop() const;

 private:
  void decompose();

  size_t n_;
  int population_;
  double first_sigma_, sigma_;
  Random random_;
  std::vector<double> mean_, path_c_, path_sigma_;
  std::vector<double> covariance_, basis_, lengths_;  // n x n by rows; columns are axes; standard deviations along them
  std::vector<double> weights_;
  double effective_ = 0, c_sigma_ = 0, damping_ = 0, c_c_ = 0, c_1_ = 0, c_mu_ = 0, expected_ = 0;
  int64_t generation_ = 0;
  std::vector<std::vector<double>> asked_, steps_;  // points; what they are from the mean, by sigma
  std::optional<Best> best_;
  std::vector<double> recent_;  // least values of the last generations
};

}  // namespace sparkpilot::sim

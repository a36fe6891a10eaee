#include "bench/summary.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot {

TensorSummary summarize(const ConstView& view) {
  TensorSummary s;
  // The sum of squares about the mean so far (B. P. Welford, 1962): values far from 0 cancel nothing.
  double mean = 0, squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < view.elements(); ++i) {
    const double x = load_element(view.dtype, view.data, i);
    if (!std::isfinite(x)) {
      ++s.not_finite;
      s.nan += std::isnan(x);
      s.infinite += x > 0;
      continue;
    }
    s.min = std::min(s.min.value_or(x), x);
    s.max = std::max(s.max.value_or(x), x);
    ++finite;
    const double off = x - mean;
    mean += off / static_cast<double>(finite);
    squares += off * (x - mean);
  }
  if (finite == 0) return s;
  s.mean = mean;
  s.deviation = std::sqrt(squares / static_cast<double>(finite));
  return s;
}

}  // namespace sparkpilot

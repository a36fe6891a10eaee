#include "bench/summary.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot {

TensorSummary summarize(const ConstView& view) {
  TensorSummary s;
  double sum = 0, squares = 0;
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
    sum += x;
    squares += x * x;
    ++finite;
  }
  if (finite == 0) return s;
  const double mean = sum / static_cast<double>(finite);
  s.mean = mean;
  s.deviation = std::sqrt(std::max(0.0, squares / static_cast<double>(finite) - mean * mean));
  return s;
}

}  // namespace sparkpilot

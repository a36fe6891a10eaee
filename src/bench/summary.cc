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
      continue;
    }
    s.min = finite ? std::min(s.min, x) : x;
    s.max = finite ? std::max(s.max, x) : x;
    sum += x;
    squares += x * x;
    ++finite;
  }
  if (finite == 0) return s;
  s.mean = sum / static_cast<double>(finite);
  s.deviation = std::sqrt(std::max(0.0, squares / static_cast<double>(finite) - s.mean * s.mean));
  return s;
}

}  // namespace sparkpilot

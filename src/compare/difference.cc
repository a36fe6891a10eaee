#include "compare/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace sparkpilot::compare {

void DifferenceSum::add(const ConstView& got, const ConstView& expected) {
  if (!(got.shape == expected.shape)) fail_internal("compared {} with {}", got.shape.str(), expected.shape.str());
  so_far_.elements += got.elements();
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double a = load_element(got.dtype, got.data, i), b = load_element(expected.dtype, expected.data, i);
    const bool finite = std::isfinite(a) && std::isfinite(b);
    if (!finite) {
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (so_far_.not_finite++ == 0) so_far_.worst_index = i;
      continue;
    }
    const double off = std::abs(a - b);
    if (off > so_far_.max_abs) {
      so_far_.max_abs = off;
      if (so_far_.not_finite == 0) so_far_.worst_index = i;
    }
    difference_ += off * off;
    got_ += a * a;
    expected_ += b * b;
    product_ += a * b;
  }
}

Difference DifferenceSum::result() const {
  Difference out = so_far_;
  if (out.not_finite > 0) {
    out.max_abs = out.relative_l2 = std::numeric_limits<double>::infinity();
    out.cosine = 0;
    return out;
  }
  if (difference_ == 0) return out;
  out.relative_l2 = std::sqrt(difference_ / std::max(expected_, std::numeric_limits<double>::min()));
  out.cosine = got_ > 0 && expected_ > 0 ? std::clamp(product_ / std::sqrt(got_) / std::sqrt(expected_), -1.0, 1.0) : 0;
  return out;
}

Difference difference_of(const ConstView& got, const ConstView& expected) {
  DifferenceSum sum;
  sum.add(got, expected);
  return sum.result();
}

}  // namespace sparkpilot::compare

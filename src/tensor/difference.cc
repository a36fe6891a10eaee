#include "tensor/difference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace sparkpilot {
namespace {

double relative(double difference, double expected) {
  if (difference == 0) return 0;
  // Squares that a double cannot hold: nothing is known but that they differ.
  if (!std::isfinite(difference) || !std::isfinite(expected)) return std::numeric_limits<double>::infinity();
  return std::sqrt(difference) / measure_of(std::sqrt(expected));
}

}  // namespace

void DifferenceSum::add(const ConstView& got, const ConstView& expected) {
  if (!(got.shape == expected.shape)) fail_internal("compared {} with {}", got.shape.str(), expected.shape.str());
  so_far_.elements += got.elements();
  double difference = 0, norm = 0;  // of this sample
  int64_t not_finite = 0;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double a = load_element(got.dtype, got.data, i), b = load_element(expected.dtype, expected.data, i);
    if (!std::isfinite(a) || !std::isfinite(b)) {
      if (a == b || (std::isnan(a) && std::isnan(b))) {
        ++so_far_.both_alike;
        continue;
      }
      if (so_far_.not_finite + not_finite++ == 0) so_far_.worst_index = i;
      continue;
    }
    const double off = std::abs(a - b);
    if (off > so_far_.max_abs) {
      so_far_.max_abs = off;
      if (so_far_.not_finite == 0 && not_finite == 0) so_far_.worst_index = i;
    }
    difference += off * off;
    norm += b * b;
    got_ += a * a;
    product_ += a * b;
  }
  so_far_.not_finite += not_finite;
  const double own = not_finite > 0 ? std::numeric_limits<double>::infinity() : relative(difference, norm);
  so_far_.worst_sample = std::max(so_far_.worst_sample, own);
  difference_ += difference;
  expected_ += norm;
}

Difference DifferenceSum::result() const {
  Difference out = so_far_;
  if (out.not_finite > 0) {
    out.max_abs = out.relative_l2 = std::numeric_limits<double>::infinity();
    out.cosine = 0;
    return out;
  }
  if (difference_ == 0) return out;
  out.relative_l2 = relative(difference_, expected_);
  out.cosine = got_ > 0 && expected_ > 0 && std::isfinite(got_) && std::isfinite(expected_)
                   ? std::clamp(product_ / std::sqrt(got_) / std::sqrt(expected_), -1.0, 1.0)
                   : 0;
  return out;
}

Difference difference_of(const ConstView& got, const ConstView& expected) {
  DifferenceSum sum;
  sum.add(got, expected);
  return sum.result();
}

}  // namespace sparkpilot

// How far values are from those of a reference.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace sparkpilot {

struct Difference {
  int64_t elements = 0;
  int64_t not_finite = 0;   // elements of which one side is NaN or infinite and the other is not the same
  int64_t both_alike = 0;   // elements that are the same NaN or infinity on both sides
  double max_abs = 0;       // infinite if any element is not finite in that sense
  double relative_l2 = 0;   // sqrt(sum (got - expected)^2 / sum expected^2); infinite in that case too
  double cosine = 1;        // of the two as vectors; 0 in that case, and if only one of them is all zero
  int64_t worst_index = 0;  // of the element with the largest difference, in the sample it was found in
  double worst_sample = 0;  // the largest relative L2 of one sample
  bool equal() const { return max_abs == 0; }
};

// What a norm of differences is divided by, of the reference's norm: by no less than 1e-30, as numbers that a type
// holds with few bits or flushes to zero are no measure, and for zeros by 1e-15.
constexpr double measure_of(double norm) { return norm == 0 ? 1e-15 : norm > 1e-30 ? norm : 1e-30; }

// Sums over the samples of a comparison. The same NaN or infinity on both sides is no difference and counts in no sum.
class DifferenceSum {
 public:
  // Both of the same shape, in any types; fails (internal) if the shapes differ.
  void add(const ConstView& got, const ConstView& expected);
  Difference result() const;

 private:
  Difference so_far_;
  double difference_ = 0, got_ = 0, expected_ = 0, product_ = 0;  // sums of squares and of products
};

Difference difference_of(const ConstView& got, const ConstView& expected);

}  // namespace sparkpilot

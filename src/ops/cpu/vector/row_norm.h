// Normalisation of contiguous f32 rows, in addition to the sums of vector_math.h. Results do not depend on threads.
// Rows need no alignment; `x` and `y` may be the same.
#pragma once

#include <cstdint>

#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {

struct Moments {
  float mean = 0, variance = 0;  // population variance, from a second pass over the row
};
inline Moments row_moments(const float* x, int64_t n) {
  const auto count = static_cast<float>(n);
  const float mean = row_sum(x, n) / count;
  return {mean, row_sum_squares_about(x, mean, n) / count};
}

// LayerNormalization and RMSNormalization of `rows` rows of n elements:
//   y = (x - mean) * inverse * scale[i] + bias[i], inverse = 1 / sqrt(variance + epsilon); rms: with 0 as the mean
// `bias` may be null; each row's mean and inverse are written to `means` and `inverses` unless null.
struct RowNorm {
  int64_t n = 0;
  float epsilon = 0;
  bool rms = false;
  const float *scale = nullptr, *bias = nullptr;
  float *means = nullptr, *inverses = nullptr;
};
void normalize_rows(const RowNorm& norm, const float* x, float* y, int64_t rows);
// y = (x - mean) * factor + shift
void row_affine(const float* x, float* y, int64_t n, float mean, float factor, float shift);

}  // namespace sparkpilot

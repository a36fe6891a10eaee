// What the normalisations share over contiguous f32 rows, besides the sums of vector_math.h. Results do not depend on
// threads. Rows need no alignment; `x` and `y` may be the same.
#pragma once

#include <cstdint>

#include "ops/cpu/vector_math.h"

namespace sparkpilot {

struct Moments {
  float mean = 0, variance = 0;  // population variance, from a second pass over the row
};
inline Moments row_moments(const float* x, int64_t n) {
  const auto count = static_cast<float>(n);
  const float mean = row_sum(x, n) / count;
  return {mean, row_sum_squares_about(x, mean, n) / count};
}

// y = (x - mean) * factor * scale[i] + bias[i]; `scale` and `bias` may be null (1 and 0).
void row_normalize(const float* x, float* y, int64_t n, float mean, float factor, const float* scale,
                   const float* bias);
// y = (x - mean) * factor + shift
void row_affine(const float* x, float* y, int64_t n, float mean, float factor, float shift);

}  // namespace sparkpilot

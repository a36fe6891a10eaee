// Loops over quantized elements: sums of two tensors, and table lookups.
#pragma once

#include "tensor/dtype.h"

namespace sparkpilot {

// y = clamp(round_to_even(fma(float(a - a_zero), a_scale, float(b - b_zero) * b_scale)), low, high) + zero, in f32 with
// one rounding each. Each of a, b and y is u8 or i8.
struct Int8Sum {
  int32_t a_zero = 0, b_zero = 0, zero = 0;
  float a_scale = 1, b_scale = 1;
  float low = 0, high = 255;  // integers, before the zero point is added
};
void add_int8(DType a_dtype, const void* a, DType b_dtype, const void* b, DType y_dtype, void* y, int64_t n,
              const Int8Sum& sum);

// y[i] = table[x[i]]; the table has 256 bytes.
void look_up_bytes(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t n);

}  // namespace sparkpilot

// Vector kernels that convert between f32 rows and rows of 8-bit codes with one scale, and of integers a zero point.
// Zero points must be in the range of the integer type.
#pragma once

#include <cstdint>

namespace sparkpilot {

// y = saturate(round_to_even(x / scale) + zero); NaN becomes the lowest value.
void quantize_row(const float* x, uint8_t* y, int64_t n, float scale, float zero);
void quantize_row(const float* x, int8_t* y, int64_t n, float scale, float zero);
// float_to_e4m3(x / scale) (tensor/small_floats.h).
void quantize_row_e4m3(const float* x, uint8_t* y, int64_t n, float scale);

// y = (x - zero) * scale
void dequantize_row(const uint8_t* x, float* y, int64_t n, float scale, float zero);
void dequantize_row(const int8_t* x, float* y, int64_t n, float scale, float zero);

}  // namespace sparkpilot

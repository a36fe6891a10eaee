// Converts sums of byte products to an op's output: what int8_gemm and int8_depthwise do before they store.
//
//   v = fma(float(sum + start[c]), multiplier[c], shift[c])        f32, one rounding each
//   y = clamp(round_to_even(v), low, high) + zero                  u8 and i8
// or y = v for f32, y = sum + start[c] for i32. The sums are exact: |sum| must stay below 2^31.
#pragma once

#include "tensor/dtype.h"

namespace sparkpilot {

struct Int8Output {
  DType dtype = DType::u8;
  // By column, padded to whole blocks of Int8Matrix::kBlock.
  const int32_t* start = nullptr;  // bias minus the contribution of the input's zero point
  const float* multiplier = nullptr;
  const float* shift = nullptr;
  bool simple = false;        // all shifts are 0, and sum * multiplier always fits in i32
  float low = 0, high = 255;  // integers, before the zero point is added
  int32_t zero = 0;
  void* y = nullptr;   // row 0, column 0
  int64_t stride = 0;  // between rows, in elements
};

// The greatest depth whose sum cannot overflow: 2^15 products of at most 255 * 128, and a bias of at most 2^30.
inline constexpr int64_t kInt8MostProduct = 255 * 128;
inline constexpr int64_t kInt8MaxDepth = int64_t{1} << 15, kInt8MaxBias = int64_t{1} << 30;

}  // namespace sparkpilot

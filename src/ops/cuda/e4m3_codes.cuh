// What products and convolutions of codes of E4M3 share: multiplying 16 of them (byte_gemm.cuh), and finishing a sum.
#pragma once

#include "ops/cuda/byte_gemm.cuh"
#include "ops/cuda/epilogue.cuh"

namespace device {

struct E4m3Codes {
  using Sum = float;
  template <int kTiles>
  static __device__ __forceinline__ void multiply(float (&sums)[1][kTiles][4], const uint4& high, const uint4& low,
                                                  const uint4 (&right)[kTiles]) {
    in_two_steps(high, low, right, [&](const auto& rows, const auto& columns) { mma_tile_e4m3(sums, rows, columns); });
  }
};

// Elements i and i + 2 of a word as f16, times 2^-8: sign, exponent and mantissa moved to their places, as in
// scaled_gemm.cu, but NaN stays NaN. It is the only code whose other bits become 0x3f80.
__device__ __forceinline__ uint32_t half2(uint32_t word, int i) {
  const uint32_t codes = word >> 8 * i & 0x00ff00ffu, magnitudes = codes << 7 & 0x3f803f80u;
  const uint32_t is_nan = (magnitudes + 0x00800080u) >> 14 & 0x00010001u;
  return (codes << 8 & 0x80008000u) | magnitudes | is_nan * 0x7e00u;
}

struct DecodedE4m3 {
  using Sum = float;
  template <int kTiles>
  static __device__ __forceinline__ void multiply(float (&sums)[1][kTiles][4], const uint4& high, const uint4& low,
                                                  const uint4 (&right)[kTiles]) {
    const auto word = [](const uint4& four, int i) {
      return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w;
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t rows[1][4] = {
          {half2(word(high, i), 0), half2(word(low, i), 0), half2(word(high, i), 1), half2(word(low, i), 1)}};
      uint32_t columns[kTiles][2];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        columns[tile][0] = half2(word(right[tile], i), 0), columns[tile][1] = half2(word(right[tile], i), 1);
      }
      mma_tile_f16(sums, rows, columns);
    }
  }
};

// Stores y[at] of a sum; Arguments: those of e4m3_gemm.h and e4m3_conv.h.
template <typename Arguments>
__device__ __forceinline__ void store_e4m3_sum(const Arguments& p, float sum, int row, int column, long long at) {
  using sparkpilot::cuda::Storage;
  sum *= p.scales[column];
  if (p.bias) sum += p.bias[column];
  sum = apply_epilogue(p.epilogue, sum, row, column);
  if (p.storage == Storage::f32) static_cast<float*>(p.y)[at] = sum;
  else if (p.storage == Storage::f16) static_cast<uint16_t*>(p.y)[at] = to_half(sum);
  else static_cast<uint16_t*>(p.y)[at] = to_bfloat16(sum);
}

}  // namespace device

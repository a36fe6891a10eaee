// The end of products whose weights, packed in 8 or 4 bits, are mma's left operand: scaled_gemm.cu, nvfp4_gemm.cu.
#pragma once

#include "ops/cuda/epilogue.cuh"
#include "ops/cuda/tile.cuh"

namespace device {

// Of a block: warps that share the depth, columns of y (rows of weights), and the distance of sums, so that four lanes
// write to four banks.
constexpr int kScaledWarps = 8, kScaledColumns = 16, kScaledSums = 20;

// Adds what the warps have of 16 columns by 8 kTiles rows of y, in their order, and gives store(y, row, column).
template <int kTiles, typename Arguments, typename Store>
__device__ __forceinline__ void finish_scaled_rows(const Arguments& p, const float (&sums)[kTiles][4],
                                                   const Store& store) {
  constexpr int kRows = 8 * kTiles;
  STATIC_SHARED(float, partial, kScaledWarps* kRows* kScaledSums);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int first = static_cast<int>(blockIdx.x) * kScaledColumns, first_row = static_cast<int>(blockIdx.y) * kRows;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      partial[(warp * kRows + tile * 8 + lane % 4 * 2 + i % 2) * kScaledSums + lane / 4 + i / 2 * 8] = sums[tile][i];
  __syncthreads();
#pragma unroll 1
  for (int at = thread; at < kRows * kScaledColumns; at += kScaledWarps * 32) {
    const int row = first_row + at / kScaledColumns, column = first + at % kScaledColumns;
    if (row >= p.m || column >= p.n) continue;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kScaledWarps; ++i)
      sum += partial[(i * kRows + at / kScaledColumns) * kScaledSums + at % kScaledColumns];
    sum *= p.scales[column];
    if (p.bias) sum += p.bias[column];
    store(apply_epilogue(p.epilogue, sum, row, column), row, column);
  }
}

}  // namespace device

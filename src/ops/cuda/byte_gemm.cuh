// Products of elements of 8 bits by constant weights of 8 bits, which are read once: what E4M3 and whole numbers share.
#pragma once

#include "ops/cuda/tile.cuh"

namespace device {

// 16 bytes of a row of which `left` are left; the others are zero.
__device__ __forceinline__ uint4 load_sixteen_bytes(const uint8_t* from, int left, bool aligned) {
  if (aligned && left >= 16) return load_16(from);
  uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (i < left) words[i / 4] |= static_cast<uint32_t>(from[i]) << i % 4 * 8;
  }
  return {words[0], words[1], words[2], words[3]};
}

__device__ __forceinline__ void add_four(const uint4& bits, int (&to)[4]) {
  to[0] += static_cast<int>(bits.x), to[1] += static_cast<int>(bits.y);
  to[2] += static_cast<int>(bits.z), to[3] += static_cast<int>(bits.w);
}

constexpr int kByteWarps = 8, kByteColumns = 16, kByteDepth = 64;
constexpr int kByteStride = 20;  // of sums, so that four lanes write to four banks

// Rows of a matrix, the kTiles that a lane reads from `first` on.
template <int kTiles>
class MatrixRows {
 public:
  template <typename Arguments>
  __device__ __forceinline__ MatrixRows(const Arguments& p, int first) : aligned_(is_aligned(p.a, p.a_stride)) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      a_[tile] = p.a + static_cast<long long>(least(first + tile * 8, p.m - 1)) * p.a_stride;
  }
  template <typename Arguments>
  __device__ __forceinline__ void load(const Arguments& p, int k, uint4 (&right)[kTiles]) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) right[tile] = load_sixteen_bytes(a_[tile] + k, p.k - k, aligned_);
  }

 private:
  const uint8_t* a_[kTiles];
  bool aligned_;
};

// finish(sums, row, column, count) for each kEach (1 or 4) neighbours in a row of y[m, n] that a block of kByteWarps
// warps has, of which `count` are there. 16 rows of weights are mma's left operand; they lie padded with zeros to
// kByteDepth. kDeep warps share the depth of the same 8 kTiles rows, and what they have is added in order; others have
// other rows. A lane loads 16 neighbours in depth of rows of weights lane / 4 and lane / 4 + 8, which it passes as if
// they were the places that mma means: sums do not depend on the order in depth as long as both operands have the same.
//
// Rows says what a lane reads of the other operand, from k on. Codes has the type of a Sum and multiply(sums, high,
// low, right), which adds the products of two rows of weights by a row of each tile, 16 elements of each.
template <typename Codes, int kTiles, int kDeep, int kEach, template <int> typename Rows, typename Arguments,
          typename Finish>
__device__ __forceinline__ void byte_gemm(const Arguments& p, const Finish& finish) {
  using Sum = typename Codes::Sum;
  constexpr int kRows = 8 * kTiles, kAll = kRows * (kByteWarps / kDeep), kInRow = kByteColumns / kEach;
  STATIC_SHARED(Sum, partial, kDeep * kAll * kByteStride);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int slice = warp % kDeep, share = warp / kDeep * kRows;
  const int first = static_cast<int>(blockIdx.x) * kByteColumns, first_row = static_cast<int>(blockIdx.y) * kAll;
  const uint8_t* const upper = p.codes + least(first + lane / 4, p.n - 1) * p.code_bytes;
  const uint8_t* const lower = p.codes + least(first + lane / 4 + 8, p.n - 1) * p.code_bytes;
  const int begin = slice * kByteDepth + lane % 4 * 16;
  Rows<kTiles> rows(p, first_row + share + lane / 4);
  Sum sums[1][kTiles][4] = {};
#pragma unroll 1
  for (int k = begin; k - lane % 4 * 16 < p.k; k += kDeep * kByteDepth) {
    const uint4 high = load_16_once(upper + k), low = load_16_once(lower + k);
    uint4 right[kTiles];
    rows.load(p, k, right);
    Codes::multiply(sums, high, low, right);
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = share + tile * 8 + lane % 4 * 2 + i % 2;
      partial[(slice * kAll + row) * kByteStride + lane / 4 + i / 2 * 8] = sums[0][tile][i];
    }
  __syncthreads();
#pragma unroll 1
  for (int at = thread; at < kAll * kInRow; at += kByteWarps * 32) {
    const int in_block = at / kInRow, neighbour = at % kInRow * kEach;
    const int row = first_row + in_block, column = first + neighbour;
    if (row >= p.m || column >= p.n) continue;
    Sum finished[kEach] = {};
#pragma unroll
    for (int i = 0; i < kDeep; ++i) {
      const Sum* const from = partial + (i * kAll + in_block) * kByteStride + neighbour;
      if constexpr (kEach == 4) add_four(load_16(from), finished);
      else finished[0] += *from;
    }
    finish(finished, row, column, least(p.n - column, kEach));
  }
}

// The words of 16 bytes as two products of a depth of 32.
template <int kTiles, typename Multiply>
__device__ __forceinline__ void in_two_steps(const uint4& high, const uint4& low, const uint4 (&right)[kTiles],
                                             const Multiply& multiply) {
  uint32_t columns[kTiles][2];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) columns[tile][0] = right[tile].x, columns[tile][1] = right[tile].y;
  const uint32_t front[1][4] = {{high.x, low.x, high.y, low.y}};
  multiply(front, columns);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) columns[tile][0] = right[tile].z, columns[tile][1] = right[tile].w;
  const uint32_t back[1][4] = {{high.z, low.z, high.w, low.w}};
  multiply(back, columns);
}

}  // namespace device

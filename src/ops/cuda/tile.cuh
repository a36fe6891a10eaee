// Matrices in pieces of 16 bytes: as numbers, and as tiles in shared memory.
#pragma once

#include "ops/cuda/device.cuh"

namespace device {

__device__ __forceinline__ bool is_aligned(const void* data, long long stride_bytes) {
  return ((reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(stride_bytes)) & 15) == 0;
}

// The numbers of 16 bytes: four of f32, eight of f16 and bf16.
template <typename T, int kCount>
__device__ __forceinline__ void unpack(const uint4& bits, float (&out)[kCount]) {
  static_assert(kCount * sizeof(typename T::Bits) == 16);
  if constexpr (kCount == 4) {
    out[0] = __uint_as_float(bits.x), out[1] = __uint_as_float(bits.y);
    out[2] = __uint_as_float(bits.z), out[3] = __uint_as_float(bits.w);
  } else {
    const float2 a = T::values(bits.x), b = T::values(bits.y), c = T::values(bits.z), d = T::values(bits.w);
    out[0] = a.x, out[1] = a.y, out[2] = b.x, out[3] = b.y, out[4] = c.x, out[5] = c.y, out[6] = d.x, out[7] = d.y;
  }
}
template <typename T, int kCount>
__device__ __forceinline__ void load_piece(const typename T::Bits* from, float (&out)[kCount]) {
  unpack<T>(load_16(from), out);
}

// Eight elements of f16 or bf16 of a row of which `left` are left; the others are zero. kOnce: load_16_once().
template <bool kOnce>
__device__ __forceinline__ uint4 load_eight_of_16_bits(const uint16_t* from, int left, bool aligned) {
  if (aligned && left >= 8) {
    if constexpr (kOnce) return load_16_once(from);
    else return load_16(from);
  }
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t low = i * 2 < left ? from[i * 2] : 0, high = i * 2 + 1 < left ? from[i * 2 + 1] : 0;
    words[i] = low | high << 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

// Where 16-byte piece `piece` of a row of kPieces lies in shared memory, in pieces: such that eight neighbours in one
// column of pieces, as ldmatrix and the f32 tiles read them, lie in eight groups of four banks.
template <int kPieces>
__device__ __forceinline__ int place(int row, int piece) {
  static_assert(kPieces == 4 || kPieces % 8 == 0);
  return row * kPieces + (kPieces == 4 ? piece ^ (row >> 1 & 3) : piece ^ (row & 7));
}

// Starts to copy a tile: kRows rows of kPieces pieces, of a matrix that has `rows` more rows and `columns` more
// columns; the rest becomes zero. kThreads of the block take part.
template <int kThreads, typename Bits, int kRows, int kPieces>
__device__ __forceinline__ void load_tile(Bits* tile, const Bits* from, long long stride, int rows, int columns,
                                          bool aligned) {
  constexpr int kPiece = 16 / static_cast<int>(sizeof(Bits)), kEach = kRows * kPieces / kThreads;
  static_assert(kRows * kPieces % kThreads == 0);
  const int thread = static_cast<int>(threadIdx.x);
  if (aligned) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = thread + i * kThreads, row = at / kPieces, piece = at % kPieces;
      const int left = row < rows ? least(columns - piece * kPiece, kPiece) : 0;
      const Bits* const source = left > 0 ? from + row * stride + piece * kPiece : from;
      copy_async<16>(tile + place<kPieces>(row, piece) * kPiece, source,
                     left > 0 ? left * static_cast<int>(sizeof(Bits)) : 0);
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kEach; ++i) {
    const int at = thread + i * kThreads, row = at / kPieces, piece = at % kPieces;
    const int left = row < rows ? columns - piece * kPiece : 0;
    const Bits* const source = from + row * stride + piece * kPiece;
    Bits* const to = tile + place<kPieces>(row, piece) * kPiece;
#pragma unroll
    for (int j = 0; j < kPiece; ++j) to[j] = j < left ? source[j] : Bits(0);
  }
}

}  // namespace device

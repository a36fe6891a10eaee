// Pieces of 16 bytes: four elements of f32, eight of f16 and bf16, as fp32.
#pragma once

#include "ops/cuda/storage.cuh"

namespace device {

template <typename T>
constexpr int kPiece = 16 / static_cast<int>(sizeof(typename T::Bits));

template <typename T>
__device__ __forceinline__ void load_piece(const typename T::Bits* from, float (&out)[kPiece<T>]) {
  if constexpr (kPiece<T> == 4) {
    const uint4 bits = load_16(from);
    out[0] = __uint_as_float(bits.x), out[1] = __uint_as_float(bits.y);
    out[2] = __uint_as_float(bits.z), out[3] = __uint_as_float(bits.w);
  } else {
    load_eight<T>(from, out);
  }
}

template <typename T>
__device__ __forceinline__ void store_piece(typename T::Bits* to, const float (&in)[kPiece<T>]) {
  if constexpr (kPiece<T> == 4) {
    store_16(to, {__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]), __float_as_uint(in[3])});
  } else {
    store_eight<T>(to, in);
  }
}

}  // namespace device

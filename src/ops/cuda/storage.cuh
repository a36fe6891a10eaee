// How kernels store numbers: each is computed in fp32 and rounded once when it is stored. A kernel's body is a template
// over one of these, and its entries are one for each: softmax_f32, softmax_f16, softmax_bf16.
#pragma once

#include "ops/cuda/device.cuh"

namespace device {

struct F32 {
  using Bits = float;
  static __device__ __forceinline__ float value(Bits bits) { return bits; }
  static __device__ __forceinline__ Bits rounded(float value) { return value; }
};
struct F16 {
  using Bits = uint16_t;
  static __device__ __forceinline__ float value(Bits bits) { return half_value(bits); }
  static __device__ __forceinline__ Bits rounded(float value) { return to_half(value); }
  static __device__ __forceinline__ float2 values(uint32_t pair) { return half2_values(pair); }
  static __device__ __forceinline__ uint32_t pair(float low, float high) { return pack_half2(low, high); }
};
struct BF16 {
  using Bits = uint16_t;
  static __device__ __forceinline__ float value(Bits bits) { return bfloat16_value(bits); }
  static __device__ __forceinline__ Bits rounded(float value) { return to_bfloat16(value); }
  static __device__ __forceinline__ float2 values(uint32_t pair) { return bfloat162_values(pair); }
  static __device__ __forceinline__ uint32_t pair(float low, float high) { return pack_bfloat162(low, high); }
};

// Eight elements at a multiple of 16 bytes. kOnce: nobody reads them again soon (load_16_once).
template <typename T, bool kOnce = false>
__device__ __forceinline__ void load_eight(const typename T::Bits* from, float (&out)[8]) {
  if constexpr (sizeof(typename T::Bits) == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 four = kOnce ? load_16_once(from + i * 4) : load_16(from + i * 4);
      out[i * 4] = __uint_as_float(four.x), out[i * 4 + 1] = __uint_as_float(four.y);
      out[i * 4 + 2] = __uint_as_float(four.z), out[i * 4 + 3] = __uint_as_float(four.w);
    }
  } else {
    const uint4 pairs = kOnce ? load_16_once(from) : load_16(from);
    const float2 a = T::values(pairs.x), b = T::values(pairs.y), c = T::values(pairs.z), d = T::values(pairs.w);
    out[0] = a.x, out[1] = a.y, out[2] = b.x, out[3] = b.y, out[4] = c.x, out[5] = c.y, out[6] = d.x, out[7] = d.y;
  }
}

template <typename T>
__device__ __forceinline__ void store_eight(typename T::Bits* to, const float (&in)[8]) {
  if constexpr (sizeof(typename T::Bits) == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      store_16(to + i * 4, {__float_as_uint(in[i * 4]), __float_as_uint(in[i * 4 + 1]), __float_as_uint(in[i * 4 + 2]),
                            __float_as_uint(in[i * 4 + 3])});
    }
  } else {
    store_16(to, {T::pair(in[0], in[1]), T::pair(in[2], in[3]), T::pair(in[4], in[5]), T::pair(in[6], in[7])});
  }
}

}  // namespace device

// Elements whose type is known only when a kernel runs, as fp32 and as whole numbers.
#pragma once

#include "ops/cuda/device.cuh"
#include "ops/cuda/strided.h"

namespace device {

using sparkpilot::cuda::ElementType;

// Towards zero, saturating; 0 for NaN.
__device__ __forceinline__ int to_i32(float x) {
  if (!(x > -2147483648.0f)) return x == x ? -2147483647 - 1 : 0;
  return x >= 2147483648.0f ? 2147483647 : static_cast<int>(x);
}
__device__ __forceinline__ long long to_i64(float x) {
  if (!(x > -9223372036854775808.0f)) return x == x ? -9223372036854775807LL - 1 : 0;
  return x >= 9223372036854775808.0f ? 9223372036854775807LL : static_cast<long long>(x);
}
__device__ __forceinline__ int to_small(float x, float least, float most) {
  return x == x ? static_cast<int>(fminf(fmaxf(x, least), most)) : 0;
}
__device__ __forceinline__ uint8_t to_byte(ElementType type, float x) {
  if (type == ElementType::boolean) return x != 0 ? 1 : 0;
  if (type == ElementType::u8) return static_cast<uint8_t>(to_small(x, 0, 255));
  return static_cast<uint8_t>(to_small(x, -128, 127));
}
__device__ __forceinline__ float byte_value(ElementType type, uint8_t bits) {
  return type == ElementType::i8 ? static_cast<float>(static_cast<int8_t>(bits)) : static_cast<float>(bits);
}

__device__ __forceinline__ float load_value(ElementType type, const void* data, long long at) {
  switch (type) {
    case ElementType::f32: return static_cast<const float*>(data)[at];
    case ElementType::f16: return half_value(static_cast<const uint16_t*>(data)[at]);
    case ElementType::bf16: return bfloat16_value(static_cast<const uint16_t*>(data)[at]);
    case ElementType::i32: return static_cast<float>(static_cast<const int*>(data)[at]);
    case ElementType::i64: return static_cast<float>(static_cast<const long long*>(data)[at]);
    default: return byte_value(type, static_cast<const uint8_t*>(data)[at]);
  }
}
__device__ __forceinline__ void store_value(ElementType type, void* data, long long at, float x) {
  switch (type) {
    case ElementType::f32: static_cast<float*>(data)[at] = x; return;
    case ElementType::f16: static_cast<uint16_t*>(data)[at] = to_half(x); return;
    case ElementType::bf16: static_cast<uint16_t*>(data)[at] = to_bfloat16(x); return;
    case ElementType::i32: static_cast<int*>(data)[at] = to_i32(x); return;
    case ElementType::i64: static_cast<long long*>(data)[at] = to_i64(x); return;
    default: static_cast<uint8_t*>(data)[at] = to_byte(type, x); return;
  }
}

// kWidth (4 or 8) elements at a multiple of their bytes, or of 16.
template <int kWidth>
__device__ __forceinline__ void load_values(ElementType type, const void* data, long long at, float (&x)[kWidth]) {
  switch (type) {
    case ElementType::f32:
    case ElementType::i32:
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        const uint4 four = load_16(static_cast<const int*>(data) + at + i);
        const bool whole = type == ElementType::i32;
        x[i] = whole ? static_cast<float>(static_cast<int>(four.x)) : __uint_as_float(four.x);
        x[i + 1] = whole ? static_cast<float>(static_cast<int>(four.y)) : __uint_as_float(four.y);
        x[i + 2] = whole ? static_cast<float>(static_cast<int>(four.z)) : __uint_as_float(four.z);
        x[i + 3] = whole ? static_cast<float>(static_cast<int>(four.w)) : __uint_as_float(four.w);
      }
      return;
    case ElementType::f16:
    case ElementType::bf16: {
      uint32_t pairs[kWidth / 2];
      if constexpr (kWidth == 8) {
        const uint4 loaded = load_16(static_cast<const uint16_t*>(data) + at);
        pairs[0] = loaded.x, pairs[1] = loaded.y, pairs[2] = loaded.z, pairs[3] = loaded.w;
      } else {
        const uint2 loaded = load_8(static_cast<const uint16_t*>(data) + at);
        pairs[0] = loaded.x, pairs[1] = loaded.y;
      }
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        const float2 two = type == ElementType::f16 ? half2_values(pairs[i]) : bfloat162_values(pairs[i]);
        x[i * 2] = two.x, x[i * 2 + 1] = two.y;
      }
      return;
    }
    case ElementType::i64:
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] = static_cast<float>(static_cast<const long long*>(data)[at + i]);
      return;
    default: {
      uint32_t fours[kWidth / 4];
      if constexpr (kWidth == 8) {
        const uint2 loaded = load_8(static_cast<const uint8_t*>(data) + at);
        fours[0] = loaded.x, fours[1] = loaded.y;
      } else {
        fours[0] = *reinterpret_cast<const uint32_t*>(static_cast<const uint8_t*>(data) + at);
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] = byte_value(type, static_cast<uint8_t>(fours[i / 4] >> i % 4 * 8));
    }
  }
}
template <int kWidth>
__device__ __forceinline__ void store_values(ElementType type, void* data, long long at, const float (&x)[kWidth]) {
  switch (type) {
    case ElementType::f32:
    case ElementType::i32:
#pragma unroll
      for (int i = 0; i < kWidth; i += 4) {
        uint32_t four[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          four[k] = type == ElementType::f32 ? __float_as_uint(x[i + k]) : static_cast<uint32_t>(to_i32(x[i + k]));
        }
        store_16(static_cast<int*>(data) + at + i, {four[0], four[1], four[2], four[3]});
      }
      return;
    case ElementType::f16:
    case ElementType::bf16: {
      uint32_t pairs[kWidth / 2];
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        pairs[i] =
            type == ElementType::f16 ? pack_half2(x[i * 2], x[i * 2 + 1]) : pack_bfloat162(x[i * 2], x[i * 2 + 1]);
      }
      if constexpr (kWidth == 8) {
        store_16(static_cast<uint16_t*>(data) + at, {pairs[0], pairs[1], pairs[2], pairs[3]});
      } else {
        store_8(static_cast<uint16_t*>(data) + at, {pairs[0], pairs[1]});
      }
      return;
    }
    case ElementType::i64:
#pragma unroll
      for (int i = 0; i < kWidth; ++i) static_cast<long long*>(data)[at + i] = to_i64(x[i]);
      return;
    default: {
      uint32_t fours[kWidth / 4] = {};
#pragma unroll
      for (int i = 0; i < kWidth; ++i) fours[i / 4] |= static_cast<uint32_t>(to_byte(type, x[i])) << i % 4 * 8;
      if constexpr (kWidth == 8) store_8(static_cast<uint8_t*>(data) + at, {fours[0], fours[1]});
      else *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(data) + at) = fours[0];
    }
  }
}

// Whole numbers: i32, i64, u8, i8, booleans.
__device__ __forceinline__ long long load_integer(ElementType type, const void* data, long long at) {
  switch (type) {
    case ElementType::i32: return static_cast<const int*>(data)[at];
    case ElementType::i64: return static_cast<const long long*>(data)[at];
    case ElementType::i8: return static_cast<const int8_t*>(data)[at];
    default: return static_cast<const uint8_t*>(data)[at];
  }
}
__device__ __forceinline__ void store_integer(ElementType type, void* data, long long at, long long x) {
  switch (type) {
    case ElementType::i32: static_cast<int*>(data)[at] = static_cast<int>(x); return;
    case ElementType::i64: static_cast<long long*>(data)[at] = x; return;
    case ElementType::boolean: static_cast<uint8_t*>(data)[at] = x != 0 ? 1 : 0; return;
    default: static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(x); return;
  }
}

}  // namespace device

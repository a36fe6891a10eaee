// Elements whose type is known only when a kernel runs, as fp32 and as whole numbers.
#pragma once

#include "ops/cuda/storage.cuh"
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

// Eight elements at a multiple of 16 bytes, or of 8 for bytes.
__device__ __forceinline__ void load_eight_values(ElementType type, const void* data, long long at, float (&x)[8]) {
  switch (type) {
    case ElementType::f32: load_eight<F32>(static_cast<const float*>(data) + at, x); return;
    case ElementType::f16: load_eight<F16>(static_cast<const uint16_t*>(data) + at, x); return;
    case ElementType::bf16: load_eight<BF16>(static_cast<const uint16_t*>(data) + at, x); return;
    case ElementType::i32:
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint4 four = load_16(static_cast<const int*>(data) + at + i * 4);
        x[i * 4] = static_cast<float>(static_cast<int>(four.x));
        x[i * 4 + 1] = static_cast<float>(static_cast<int>(four.y));
        x[i * 4 + 2] = static_cast<float>(static_cast<int>(four.z));
        x[i * 4 + 3] = static_cast<float>(static_cast<int>(four.w));
      }
      return;
    case ElementType::i64:
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(static_cast<const long long*>(data)[at + i]);
      return;
    default: {
      const uint2 bytes = load_8(static_cast<const uint8_t*>(data) + at);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[i] = byte_value(type, static_cast<uint8_t>((i < 4 ? bytes.x : bytes.y) >> i % 4 * 8));
      }
    }
  }
}
__device__ __forceinline__ void store_eight_values(ElementType type, void* data, long long at, const float (&x)[8]) {
  switch (type) {
    case ElementType::f32: store_eight<F32>(static_cast<float*>(data) + at, x); return;
    case ElementType::f16: store_eight<F16>(static_cast<uint16_t*>(data) + at, x); return;
    case ElementType::bf16: store_eight<BF16>(static_cast<uint16_t*>(data) + at, x); return;
    case ElementType::i32:
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        store_16(static_cast<int*>(data) + at + i * 4,
                 {static_cast<uint32_t>(to_i32(x[i * 4])), static_cast<uint32_t>(to_i32(x[i * 4 + 1])),
                  static_cast<uint32_t>(to_i32(x[i * 4 + 2])), static_cast<uint32_t>(to_i32(x[i * 4 + 3]))});
      }
      return;
    case ElementType::i64:
#pragma unroll
      for (int i = 0; i < 8; ++i) static_cast<long long*>(data)[at + i] = to_i64(x[i]);
      return;
    default: {
      uint32_t low = 0, high = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        low |= static_cast<uint32_t>(to_byte(type, x[i])) << i * 8;
        high |= static_cast<uint32_t>(to_byte(type, x[i + 4])) << i * 8;
      }
      store_8(static_cast<uint8_t*>(data) + at, {low, high});
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

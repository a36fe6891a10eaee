// Numbers to codes of 8 bits and back: see quantize.h. For each architecture, as the older ones round to E4M3 in many
// instructions and the newer ones in one.
#define SPARKPILOT_EACH_ARCHITECTURE  // by cmake/cuda.cmake
#include "ops/cuda/quantize.h"

#include "ops/cuda/block.cuh"
#include "ops/cuda/elements.cuh"

namespace {

using sparkpilot::cuda::ByteCode;
using sparkpilot::cuda::DynamicQuantizeArguments;
using sparkpilot::cuda::QuantizeArguments;

// A thread's elements: eight, or at the end fewer.
struct Eight {
  long long first;
  int count;
  bool wide;
};
__device__ __forceinline__ Eight eight_of(const QuantizeArguments& p) {
  const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
  const int count = first < p.elements ? device::least(p.elements - static_cast<int>(first), 8) : 0;
  const auto addresses = reinterpret_cast<uintptr_t>(p.x) | reinterpret_cast<uintptr_t>(p.codes);
  return {first, count, count == 8 && addresses % 16 == 0};
}

__device__ __forceinline__ uint8_t quantized(const QuantizeArguments& p, float x) {
  const float v = __fdiv_rn(x, p.scale);
  if (p.code == ByteCode::e4m3) return device::to_e4m3(v);
  const float low = p.code == ByteCode::i8 ? -128.0f : 0.0f, rounded = rintf(v) + static_cast<float>(p.zero);
  return static_cast<uint8_t>(static_cast<int>(rounded >= low ? fminf(rounded, low + 255.0f) : low));
}

__device__ __forceinline__ float dequantized(const QuantizeArguments& p, uint8_t code) {
  if (p.code == ByteCode::e4m3) return __fmul_rn(device::e4m3_value(code), p.scale);
  const int number = p.code == ByteCode::i8 ? static_cast<int>(static_cast<int8_t>(code)) : static_cast<int>(code);
  return __fmul_rn(static_cast<float>(number - p.zero), p.scale);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) quantize(const QuantizeArguments p) {
  device::begin_kernel();
  const Eight at = eight_of(p);
  if (at.count == 0) return;
  float x[8];
  if (at.wide) {
    device::load_values(p.type, p.x, at.first, x);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = i < at.count ? device::load_value(p.type, p.x, at.first + i) : 0.0f;
  }
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i / 4] |= static_cast<uint32_t>(quantized(p, x[i])) << i % 4 * 8;
  uint8_t* const codes = static_cast<uint8_t*>(p.codes) + at.first;
  if (at.wide) {
    device::store_8(codes, {words[0], words[1]});
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < at.count) codes[i] = static_cast<uint8_t>(words[i / 4] >> i % 4 * 8);
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) dequantize(const QuantizeArguments p) {
  device::begin_kernel();
  const Eight at = eight_of(p);
  if (at.count == 0) return;
  const uint8_t* const codes = static_cast<const uint8_t*>(p.codes) + at.first;
  uint32_t words[2] = {};
  if (at.wide) {
    const uint2 loaded = device::load_8(codes);
    words[0] = loaded.x, words[1] = loaded.y;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < at.count) words[i / 4] |= static_cast<uint32_t>(codes[i]) << i % 4 * 8;
    }
  }
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = dequantized(p, static_cast<uint8_t>(words[i / 4] >> i % 4 * 8));
  if (at.wide) {
    device::store_values(p.type, p.x, at.first, x);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < at.count) device::store_value(p.type, p.x, at.first + i, x[i]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(512) dynamic_quantize(const DynamicQuantizeArguments p) {
  device::begin_kernel();
  STATIC_SHARED(float, partial, 16);
  const int thread = static_cast<int>(threadIdx.x);
  float low = 0, high = 0;
#pragma unroll 4
  for (int i = thread; i < p.elements; i += 512) {
    const float x = p.x[i];
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  low = -device::block_combine<16>(-low, partial, device::Max());
  high = device::block_combine<16>(high, partial, device::Max());
  const float scale = high == low ? 1.0f : __fdiv_rn(high - low, 255.0f), v = __fdiv_rn(-low, scale);
  const float zero = v >= 0.0f ? rintf(fminf(v, 255.0f)) : 0.0f;
  if (thread == 0) *p.scale = scale, *p.zero = static_cast<uint8_t>(static_cast<int>(zero));
#pragma unroll 4
  for (int i = thread; i < p.elements; i += 512) {
    const float code = rintf(__fdiv_rn(p.x[i], scale)) + zero;
    p.codes[i] = static_cast<uint8_t>(static_cast<int>(code >= 0.0f ? fminf(code, 255.0f) : 0.0f));
  }
}

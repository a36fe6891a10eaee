// Numbers to codes of 8 bits and back: see quantize.h. For each architecture, as the older ones round to E4M3 in many
// instructions and the newer ones in one.
#define SPARKPILOT_EACH_ARCHITECTURE  // by cmake/cuda.cmake
#include "ops/cuda/quantize.h"

#include "ops/cuda/block.cuh"
#include "ops/cuda/elements.cuh"

namespace {

using sparkpilot::cuda::ByteCode;
using sparkpilot::cuda::DecodeArguments;
using sparkpilot::cuda::DynamicQuantizeArguments;
using sparkpilot::cuda::QuantizeArguments;

// A thread's elements: eight, or at the end fewer.
struct Eight {
  long long first;
  int count;
  bool wide;
};
template <typename Arguments>
__device__ __forceinline__ Eight eight_of(const Arguments& p) {
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

// The codes of eight elements, or of fewer, one after another from the lowest bits on.
__device__ __forceinline__ void load_codes(const Eight& at, const uint8_t* codes, uint32_t (&words)[2]) {
  if (at.wide) {
    const uint2 loaded = device::load_8(codes);
    words[0] = loaded.x, words[1] = loaded.y;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < at.count) words[i / 4] |= static_cast<uint32_t>(codes[i]) << i % 4 * 8;
    }
  }
}
// Of half a byte each; `at` begins with a whole one.
__device__ __forceinline__ uint32_t load_halves(const Eight& at, const uint8_t* codes) {
  if (at.wide) return *reinterpret_cast<const uint32_t*>(codes);
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    if (i < at.count) word |= static_cast<uint32_t>(codes[i / 2]) << i * 4;
  }
  return word;
}

__device__ __forceinline__ float e2m1_value(uint32_t code) {
  const uint32_t size = code & 7;  // 0, 0.5, then 1 to 6 as floats with one bit behind the leading one
  const uint32_t bits = size > 1 ? ((size >> 1) + 126) << 23 | (size & 1) << 22 : size * __float_as_uint(0.5f);
  return __uint_as_float(bits | (code & 8) << 28);
}

// Where the scales of elements lie that follow one another.
class ScalePlace {
 public:
  __device__ __forceinline__ ScalePlace(const DecodeArguments& p, int element) {
    inner_ = element % p.inner;
    const int row = element / p.inner, outer = row / p.size;
    axis_ = row % p.size, in_block_ = axis_ % p.block;
    at_ = outer * p.outer_stride + axis_ / p.block * p.axis_stride + inner_ * p.inner_stride;
    row_ = outer * p.outer_stride;
  }
  __device__ __forceinline__ int at() const { return at_; }
  __device__ __forceinline__ void advance(const DecodeArguments& p) {
    at_ += p.inner_stride;
    if (++inner_ < p.inner) return;
    inner_ = 0, at_ -= p.inner * p.inner_stride;
    if (++axis_ == p.size) {
      axis_ = in_block_ = 0, at_ = row_ += p.outer_stride;
    } else if (++in_block_ == p.block) {
      in_block_ = 0, at_ += p.axis_stride;
    }
  }

 private:
  int inner_, axis_, in_block_, at_, row_;
};

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
  uint32_t words[2] = {};
  load_codes(at, static_cast<const uint8_t*>(p.codes) + at.first, words);
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

extern "C" __global__ void __launch_bounds__(128) decode_scaled(const DecodeArguments p) {
  device::begin_kernel();
  const Eight at = eight_of(p);
  if (at.count == 0) return;
  const uint8_t* const codes = static_cast<const uint8_t*>(p.codes);
  float x[8];
  if (p.four_bits) {
    const uint32_t halves = load_halves(at, codes + at.first / 2);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = e2m1_value(halves >> i * 4);
  } else {
    uint32_t words[2] = {};
    load_codes(at, codes + at.first, words);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = device::e4m3_value(static_cast<uint8_t>(words[i / 4] >> i % 4 * 8));
  }
  ScalePlace place(p, static_cast<int>(at.first));
  int loaded = place.at();
  float scale = p.scales[loaded];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i >= at.count) break;
    if (place.at() != loaded) loaded = place.at(), scale = p.scales[loaded];
    x[i] = __fmul_rn(x[i], scale);
    place.advance(p);
  }
  if (at.wide) {
    device::store_values(device::ElementType::f32, p.x, at.first, x);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < at.count) p.x[at.first + i] = x[i];
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

// What g++ and clang see of CUDA C++ where there is no nvcc: the names that kernels use besides the words of
// ops/cuda/device.cuh. A name that is missing here is a compile error, so kernels use no more than is emulated.
#pragma once

#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "emulator/collective.h"
#include "emulator/number.h"
#include "emulator/thread.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static_assert(false, "STATIC_SHARED or DYNAMIC_SHARED, so that the emulator sees it");

// Where a kernel is checked, by calls: the emulator's own memory is not the kernel's, and it must not be seen to read
// it.
#ifdef __SANITIZE_THREAD__
#define threadIdx (::sparkpilot::emulator::thread_index())
#define blockIdx (::sparkpilot::emulator::block_index())
#define blockDim (::sparkpilot::emulator::block_size())
#define gridDim (::sparkpilot::emulator::grid_size())
#else
#define threadIdx (::sparkpilot::emulator::current->index)
#define blockIdx (::sparkpilot::emulator::current->block->index)
#define blockDim (::sparkpilot::emulator::current->block->size)
#define gridDim (::sparkpilot::emulator::current->block->grid)
#endif

// NOLINTBEGIN: CUDA's own names and shapes.
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline void __syncthreads(SPARKPILOT_EMULATOR_HERE) { sparkpilot::emulator::barrier(false, here); }
inline int __syncthreads_or(int predicate, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::barrier(predicate != 0, here) > 0;
}
inline int __syncthreads_count(int predicate, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::barrier(predicate != 0, here);
}
inline void __syncwarp(uint32_t mask = ~0u, SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::need_whole_warp(mask);
  sparkpilot::emulator::warp_barrier(here);
}
template <typename T>
T __shfl_sync(uint32_t mask, T value, int from, int width = 32, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::shuffle_value(mask, value, sparkpilot::emulator::Lane::index, from, width, here);
}
template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int with, int width = 32, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::shuffle_value(mask, value, sparkpilot::emulator::Lane::exclusive_or, with, width, here);
}
template <typename T>
T __shfl_down_sync(uint32_t mask, T value, int by, int width = 32, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::shuffle_value(mask, value, sparkpilot::emulator::Lane::down, by, width, here);
}
template <typename T>
T __shfl_up_sync(uint32_t mask, T value, int by, int width = 32, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::shuffle_value(mask, value, sparkpilot::emulator::Lane::up, by, width, here);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::ballot(mask, predicate != 0, here);
}
inline int __any_sync(uint32_t mask, int predicate, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::ballot(mask, predicate != 0, here) != 0;
}
inline int __all_sync(uint32_t mask, int predicate, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::ballot(mask, predicate != 0, here) == ~0u;
}

// Whole numbers only: the order of atomic sums of floats changes from run to run.
inline int atomicAdd(int* address, int value, SPARKPILOT_EMULATOR_HERE) {
  return static_cast<int>(
      sparkpilot::emulator::atomic(address, static_cast<uint32_t>(value), sparkpilot::emulator::Change::add, here));
}
inline unsigned atomicAdd(unsigned* address, unsigned value, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::atomic(address, value, sparkpilot::emulator::Change::add, here);
}
inline int atomicMax(int* address, int value, SPARKPILOT_EMULATOR_HERE) {
  return static_cast<int>(
      sparkpilot::emulator::atomic(address, static_cast<uint32_t>(value), sparkpilot::emulator::Change::max, here));
}

// Rounded once, never contracted with what stands next to them.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }

// With errors as large as CUDA's manual allows ("Intrinsic functions"), so that what is built on them is not better
// here.
inline float rsqrtf(float x) { return sparkpilot::emulator::erring(1.0 / std::sqrt(static_cast<double>(x)), 2, x); }
inline float __expf(float x) {
  return sparkpilot::emulator::erring(std::exp(static_cast<double>(x)), 2 + std::floor(std::fabs(1.173 * x)), x);
}
inline float __logf(float x) {
  const double exact = std::log(static_cast<double>(x));
  return x >= 0.5f && x <= 2.0f ? sparkpilot::emulator::erring_by(exact, 0x1p-22, x)
                                : sparkpilot::emulator::erring(exact, 3, x);
}
inline float __fdividef(float a, float b) {
  if (std::fabs(b) > 0x1p126f && !std::isinf(b)) return std::isinf(a) ? NAN : std::copysign(0.0f, b);
  return sparkpilot::emulator::erring(static_cast<double>(a) / b, 2, a + b);
}

inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); }
inline int __popc(uint32_t x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<uint32_t>(x)); }
// NOLINTEND

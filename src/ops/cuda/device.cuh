// The words that kernels use besides plain CUDA C++, for the GPU and for the emulator. Instructions that CUDA C++ has
// no word for are written here and nowhere else.
//
// A kernel is one source, compiled by nvcc for each architecture and by g++ for the tests (emulator/launch.h). Rules
// that follow: shared memory is declared by STATIC_SHARED or DYNAMIC_SHARED; what a warp does together it does whole
// (blocks are whole warps, masks are ~0u); it begins with begin_kernel(); no block waits for another, nor reads what
// another of the same launch wrote; no atomic sums of floats; a kernel's one argument is a struct of kernels.h.
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#define STATIC_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#include "ops/cuda/device_gpu.cuh"
#else
#include "emulator/cuda.h"
#define STATIC_SHARED(type, name, count) \
  static const char name##_declared = 0; \
  type* const name =                     \
      reinterpret_cast<type*>(::sparkpilot::emulator::static_shared(&name##_declared, sizeof(type) * (count)))
#define DYNAMIC_SHARED(name) \
  unsigned char* const name = reinterpret_cast<unsigned char*>(::sparkpilot::emulator::dynamic_shared())
#include "ops/cuda/device_emulated.cuh"
#endif

namespace device {

__device__ __forceinline__ int least(int a, int b) { return a < b ? a : b; }

// NaN if either is, as fmaxf and fminf are not.
__device__ __forceinline__ float max_nan(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float min_nan(float a, float b) { return a < b || a != a ? a : b; }

// Every lane gets the result, in the same order of operations.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int with = 16; with > 0; with /= 2) value += __shfl_xor_sync(~0u, value, with);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int with = 16; with > 0; with /= 2) value = max_nan(value, __shfl_xor_sync(~0u, value, with));
  return value;
}

// A warp's tile of several mma of 16x8: c += a b. One meeting for the emulator, which is what makes it fast.
#ifdef __CUDACC__
#define SPARKPILOT_MMA_TILE(type, Sum)                                                           \
  template <int kM, int kN>                                                                      \
  __device__ __forceinline__ void mma_tile_##type(Sum(&c)[kM][kN][4], const uint32_t(&a)[kM][4], \
                                                  const uint32_t(&b)[kN][2]) {                   \
    _Pragma("unroll") for (int i = 0; i < kM; ++i) {                                             \
      _Pragma("unroll") for (int j = 0; j < kN; ++j) mma_##type(c[i][j], a[i], b[j]);            \
    }                                                                                            \
  }
#else
#define SPARKPILOT_MMA_TILE(type, Sum)                                                                    \
  template <int kM, int kN>                                                                               \
  inline void mma_tile_##type(Sum(&c)[kM][kN][4], const uint32_t(&a)[kM][4], const uint32_t(&b)[kN][2]) { \
    emulated_tile(sparkpilot::emulator::MmaType::type, c, a, b);                                          \
  }
#endif
SPARKPILOT_MMA_TILE(f16, float)
SPARKPILOT_MMA_TILE(bf16, float)
SPARKPILOT_MMA_TILE(s8, int)
#if !defined(__CUDACC__) || defined(SPARKPILOT_EACH_ARCHITECTURE)
SPARKPILOT_MMA_TILE(e4m3, float)
#endif
#undef SPARKPILOT_MMA_TILE

}  // namespace device

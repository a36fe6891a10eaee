// What a GPU can do at most: see limits.h.
#include "ops/cuda/limits.h"

#include "ops/cuda/device.cuh"

namespace {

using sparkpilot::cuda::kLimitChains;
using sparkpilot::cuda::kLimitThreads;
using sparkpilot::cuda::LimitArguments;

__device__ __forceinline__ long long thread() {
  return static_cast<long long>(blockIdx.x) * kLimitThreads + static_cast<int>(threadIdx.x);
}

constexpr int kLoads = 4;  // of a thread, under way at once

// Each thread moves pieces one grid apart, kLoads of them at a time.
template <typename Take>
__device__ __forceinline__ void each_piece(const LimitArguments& p, const Take& take) {
  const long long grid = static_cast<long long>(gridDim.x) * kLimitThreads;
  const char* const from = static_cast<const char*>(p.from);
#pragma unroll 1
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll 1
    for (long long first = thread(); first < p.pieces; first += grid * kLoads) {
      uint4 bits[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const long long piece = first + i * grid;
        bits[i] =
            piece < p.pieces ? device::load_16_once(from + piece * 16) : uint4{};  // not from the first-level cache
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) take(first + i * grid, bits[i]);
    }
  }
}

// Every multiply-add brings a chain nearer to 2.
__device__ __forceinline__ void fma_chains(const LimitArguments& p) {
  float sums[kLimitChains];
#pragma unroll
  for (int i = 0; i < kLimitChains; ++i) sums[i] = static_cast<float>(threadIdx.x % 32 + i);
#pragma unroll 4
  for (int round = 0; round < p.rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kLimitChains; ++i) sums[i] = fmaf(sums[i], 0.5f, 1.0f);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kLimitChains; ++i) sum += sums[i];
  static_cast<float*>(p.to)[thread()] = sum;
}

// Every product adds 16 times 1 times 2^-10 to each element.
template <bool kBfloat>
__device__ __forceinline__ void mma_chains(const LimitArguments& p) {
  constexpr uint32_t kOnes = kBfloat ? 0x3f803f80u : 0x3c003c00u, kSmall = kBfloat ? 0x3a803a80u : 0x14001400u;
  float sums[2][kLimitChains / 2][4] = {};
  uint32_t a[2][4], b[kLimitChains / 2][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    a[i / 4][i % 4] = kOnes;
    b[i / 2][i % 2] = kSmall;
  }
#pragma unroll 2
  for (int round = 0; round < p.rounds; ++round) {
    if constexpr (kBfloat) device::mma_tile_bf16(sums, a, b);
    else device::mma_tile_f16(sums, a, b);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kLimitChains; ++i) sum += sums[i / 4][i % 4][0];
  static_cast<float*>(p.to)[thread()] = sum;
}

}  // namespace

#define LIMIT(name)                                                                            \
  static __device__ __forceinline__ void name##_of(const LimitArguments& p);                   \
  extern "C" __global__ void __launch_bounds__(kLimitThreads) limit_##name(LimitArguments p) { \
    device::begin_kernel();                                                                    \
    name##_of(p);                                                                              \
  }                                                                                            \
  static __device__ __forceinline__ void name##_of(const LimitArguments& p)

LIMIT(empty) { static_cast<void>(p); }

// All bits of what a thread read, combined: the loads cannot be left out.
LIMIT(read) {
  uint32_t all = 0;
  each_piece(p, [&](long long, const uint4& bits) { all ^= bits.x ^ bits.y ^ bits.z ^ bits.w; });
  static_cast<float*>(p.to)[thread()] = __uint_as_float(all);
}
LIMIT(copy) {
  each_piece(p, [&](long long piece, const uint4& bits) {
    if (piece < p.pieces) device::store_16(static_cast<char*>(p.to) + piece * 16, bits);
  });
}
LIMIT(fma_f32) { fma_chains(p); }
LIMIT(mma_f16) { mma_chains<false>(p); }
LIMIT(mma_bf16) { mma_chains<true>(p); }

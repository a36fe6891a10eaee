// What the threads of a block make of one number each.
#pragma once

#include "ops/cuda/device.cuh"

namespace device {

struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return max_nan(a, b); }
};
struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

// Over a warp; every lane gets the result, in the same order of operations.
template <typename Combine>
__device__ __forceinline__ float warp_combine(float value, Combine combine) {
#pragma unroll
  for (int with = 16; with > 0; with /= 2) value = combine(value, __shfl_xor_sync(~0u, value, with));
  return value;
}

// Over a block of kWarps warps; every thread gets the result, in the same order of operations. `partial` is shared
// memory for kWarps numbers.
template <int kWarps, typename Combine>
__device__ __forceinline__ float block_combine(float value, float* partial, Combine combine) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  value = warp_combine(value, combine);
  __syncthreads();  // the last result has been read
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  float all = partial[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) all = combine(all, partial[i]);
  return all;
}

}  // namespace device

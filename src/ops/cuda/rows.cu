// Kernels that compute rows.
#include "ops/cuda/rows.h"

#include "ops/cuda/storage.cuh"

namespace {

constexpr int kWarps = 4;

// Over the block; every thread gets the result, in the same order of operations.
template <typename Combine>
__device__ __forceinline__ float block_combine(float value, float* partial, Combine combine) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int with = 16; with > 0; with /= 2) value = combine(value, __shfl_xor_sync(~0u, value, with));
  __syncthreads();  // the last result has been read
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  float all = partial[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) all = combine(all, partial[i]);
  return all;
}

struct Max {
  __device__ __forceinline__ float operator()(float a, float b) const { return device::max_nan(a, b); }
};
struct Sum {
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

template <typename T>
__device__ __forceinline__ void softmax(const sparkpilot::cuda::SoftmaxArguments& p) {
  STATIC_SHARED(float, partial, kWarps);
  using Bits = typename T::Bits;
  const bool warps = p.size <= sparkpilot::cuda::kSoftmaxWarpRow;
  const int thread = static_cast<int>(threadIdx.x);
  const long long row =
      warps ? static_cast<long long>(blockIdx.x) * kWarps + thread / 32 : static_cast<long long>(blockIdx.x);
  if (row >= p.rows) return;
  const Bits* const x = static_cast<const Bits*>(p.x) + row * p.size;
  Bits* const y = static_cast<Bits*>(p.y) + row * p.size;
  const int first = warps ? thread % 32 : thread, step = warps ? 32 : kWarps * 32;
  float top = -INFINITY;
  for (int i = first; i < p.size; i += step) top = device::max_nan(top, T::value(x[i]));
  top = warps ? device::warp_max(top) : block_combine(top, partial, Max());
  float sum = 0;
  for (int i = first; i < p.size; i += step) sum += expf(T::value(x[i]) - top);
  sum = warps ? device::warp_sum(sum) : block_combine(sum, partial, Sum());
  const float scale = 1.0f / sum;
  for (int i = first; i < p.size; i += step) y[i] = T::rounded(expf(T::value(x[i]) - top) * scale);
}

}  // namespace

#define SOFTMAX(name, type)                                                                      \
  extern "C" __global__ void __launch_bounds__(128) name(sparkpilot::cuda::SoftmaxArguments p) { \
    softmax<device::type>(p);                                                                    \
  }
SOFTMAX(softmax_f32, F32)
SOFTMAX(softmax_f16, F16)
SOFTMAX(softmax_bf16, BF16)

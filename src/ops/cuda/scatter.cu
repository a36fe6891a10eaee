// ScatterND, seen from the rows of its result.
#include "ops/cuda/scatter.h"

#include "ops/cuda/storage.cuh"

namespace {

using sparkpilot::cuda::ScatterArguments;

// The row that a tuple names, -1 if there is none.
__device__ __forceinline__ long long row_of(const ScatterArguments& p, int tuple) {
  long long row = 0;
#pragma unroll 1
  for (int d = 0; d < p.depth; ++d) {
    const long long at = static_cast<long long>(tuple) * p.depth + d;
    const long long index =
        p.wide_indices ? static_cast<const long long*>(p.indices)[at] : static_cast<const int*>(p.indices)[at];
    const long long from = index < 0 ? index + p.sizes[d] : index;
    if (from < 0 || from >= p.sizes[d]) return -1;
    row = row * p.sizes[d] + from;
  }
  return row;
}

template <typename T>
__device__ __forceinline__ void scatter(const ScatterArguments& p) {
  const unsigned blocks = (p.inner + p.threads - 1) / p.threads;
  const unsigned row = blockIdx.x / blocks, i = blockIdx.x % blocks * p.threads + threadIdx.x;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool mine = i < p.inner;
  const long long at = static_cast<long long>(row) * p.inner + i;
  const typename T::Bits* const updates = static_cast<const typename T::Bits*>(p.updates) + i;
  float value = mine ? T::value(static_cast<const typename T::Bits*>(p.x)[at]) : 0.0f;
#pragma unroll 1
  for (int first = 0; first < p.count; first += 32) {
    const int tuple = first + lane;
    unsigned here = __ballot_sync(~0u, tuple < p.count && row_of(p, tuple) == row);
    for (; here != 0; here &= here - 1) {
      if (!mine) continue;
      const long long k = first + __popc((here & (0u - here)) - 1);  // the lowest bit's place
      const float update = T::value(updates[k * p.inner]);
      value = p.add ? value + update : update;
    }
  }
  if (mine) static_cast<typename T::Bits*>(p.y)[at] = T::rounded(value);
}

}  // namespace

#define SPARKPILOT_SCATTER(suffix, T)                                                                              \
  extern "C" __global__ void __launch_bounds__(128) scatter_##suffix(const __grid_constant__ ScatterArguments p) { \
    device::begin_kernel();                                                                                        \
    device::let_next_begin();                                                                                      \
    scatter<device::T>(p);                                                                                         \
  }
SPARKPILOT_SCATTER(f32, F32)
SPARKPILOT_SCATTER(f16, F16)
SPARKPILOT_SCATTER(bf16, BF16)

// How the threads of a warp or a block go through a row of elements.
#pragma once

#include "ops/cuda/storage.cuh"

namespace device {

__device__ __forceinline__ bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Which elements of a row a thread has: of each chunk of eight for each thread, eight that lie together (wide), or
// every `threads`-th one.
struct Walk {
  int size, thread, threads;
  bool wide;
  __device__ __forceinline__ int at(int chunk, int i) const {
    return chunk * threads * 8 + (wide ? thread * 8 + i : i * threads + thread);
  }
  __device__ __forceinline__ bool has(int chunk, int i) const { return at(chunk, wide ? 0 : i) < size; }

  template <typename T>
  __device__ __forceinline__ void load(const typename T::Bits* x, int chunk, float (&v)[8]) const {
    if (wide) {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = 0;
      if (has(chunk, 0)) load_eight<T>(x + at(chunk, 0), v);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = has(chunk, i) ? T::value(x[at(chunk, i)]) : 0.0f;
    }
  }
  template <typename T>
  __device__ __forceinline__ void store(typename T::Bits* y, int chunk, const float (&v)[8]) const {
    if (wide) {
      if (has(chunk, 0)) store_eight<T>(y + at(chunk, 0), v);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (has(chunk, i)) y[at(chunk, i)] = T::rounded(v[i]);
      }
    }
  }
};

// sum / size within half a last place or little more: an error of the mean is one of each distance from it.
__device__ __forceinline__ float mean_of(float sum, int size) {
  const float count = static_cast<float>(size), inverse = __fdividef(1.0f, count), mean = sum * inverse;
  const float rest = fmaf(-mean, count, sum);
  return rest - rest == 0.0f ? fmaf(rest, inverse, mean) : mean;
}

}  // namespace device

// How the threads of a warp or a block go through a row of elements.
#pragma once

#include "ops/cuda/storage.cuh"

namespace device {

__device__ __forceinline__ bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Which elements of a row a thread has, in chunks of eight for each thread: eight that lie together (wide), or two
// times four (wide, quads: four of f32 are 16 bytes, so that a warp's request is 512 bytes that lie together), or every
// `threads`-th one.
struct Walk {
  int size, thread, threads;
  bool wide;  // size is a multiple of eight, and all is aligned to 16 bytes
  bool quads;
  __device__ __forceinline__ int at(int chunk, int i) const {
    const int first = chunk * threads * 8;
    if (!wide) return first + i * threads + thread;
    return quads ? first + (i / 4 * threads + thread) * 4 + i % 4 : first + thread * 8 + i;
  }
  __device__ __forceinline__ bool has(int chunk, int i) const {
    return at(chunk, !wide ? i : quads ? i / 4 * 4 : 0) < size;
  }

  // Elements beyond the row are 0.
  template <typename T>
  __device__ __forceinline__ void load(const typename T::Bits* x, int chunk, float (&v)[8]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = 0;
    if (!wide) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (has(chunk, i)) v[i] = T::value(x[at(chunk, i)]);
      }
    } else if (sizeof(typename T::Bits) == 4 && quads) {
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        if (!has(chunk, i)) continue;
        const uint4 four = load_16(x + at(chunk, i));
        v[i] = __uint_as_float(four.x), v[i + 1] = __uint_as_float(four.y);
        v[i + 2] = __uint_as_float(four.z), v[i + 3] = __uint_as_float(four.w);
      }
    } else if (has(chunk, 0)) {
      load_eight<T>(x + at(chunk, 0), v);
    }
  }
  template <typename T>
  __device__ __forceinline__ void store(typename T::Bits* y, int chunk, const float (&v)[8]) const {
    if (!wide) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (has(chunk, i)) y[at(chunk, i)] = T::rounded(v[i]);
      }
    } else if (sizeof(typename T::Bits) == 4 && quads) {
#pragma unroll
      for (int i = 0; i < 8; i += 4) {
        if (!has(chunk, i)) continue;
        store_16(y + at(chunk, i), {__float_as_uint(v[i]), __float_as_uint(v[i + 1]), __float_as_uint(v[i + 2]),
                                    __float_as_uint(v[i + 3])});
      }
    } else if (has(chunk, 0)) {
      store_eight<T>(y + at(chunk, 0), v);
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

// Coordinates of an index, and offsets of them.
#pragma once

#include "ops/cuda/device.cuh"
#include "ops/cuda/strided.h"

namespace device {

// n becomes n / by, and the remainder is the result.
__device__ __forceinline__ unsigned divide(unsigned& n, const sparkpilot::cuda::Divisor& by) {
  const unsigned quotient = (__umulhi(n, by.multiplier) + n) >> by.shift, rest = n - quotient * by.size;
  n = quotient;
  return rest;
}

// The coordinates of dimensions kFirst and on, of which `index` counts the elements.
struct Coordinates {
  unsigned at[sparkpilot::cuda::kMostDimensions];
};
template <int kFirst>
__device__ __forceinline__ Coordinates coordinates(const sparkpilot::cuda::Dimensions& dimensions, unsigned index) {
  Coordinates out;
#pragma unroll
  for (int i = kFirst; i < sparkpilot::cuda::kMostDimensions; ++i) {
    out.at[i] = 0;
    if (i < dimensions.rank - 1) {
      out.at[i] = divide(index, dimensions.sizes[i]);
    } else if (i < dimensions.rank) {
      out.at[i] = index;
    }
  }
  return out;
}
template <int kFirst>
__device__ __forceinline__ long long offset(const Coordinates& c,
                                            const int (&strides)[sparkpilot::cuda::kMostDimensions]) {
  long long at = 0;
#pragma unroll
  for (int i = kFirst; i < sparkpilot::cuda::kMostDimensions; ++i) {
    at += static_cast<long long>(static_cast<int>(c.at[i])) * strides[i];
  }
  return at;
}

}  // namespace device

// Convolutions of images and weights in E4M3: see e4m3_conv.h.
#define SPARKPILOT_EACH_ARCHITECTURE  // by cmake/cuda.cmake
#include "ops/cuda/byte_conv.cuh"
#include "ops/cuda/e4m3_codes.cuh"
#include "ops/cuda/e4m3_conv.h"

namespace {

using sparkpilot::cuda::E4m3ConvArguments;

struct Image {
  static __device__ __forceinline__ unsigned flip(const E4m3ConvArguments&) { return 0; }
  static __device__ __forceinline__ unsigned padding(const E4m3ConvArguments&) { return 0; }
};

template <typename How, int kUnit, int kDeep>
__device__ __forceinline__ void e4m3_conv(const E4m3ConvArguments& p) {
  device::byte_gemm<How, 4, kDeep, 1, device::Windows<kUnit, Image>::template Rows>(
      p, [&](const float(&sums)[1], int row, int column, int) {
        device::store_e4m3_sum(p, sums[0], row, column, static_cast<long long>(row) * p.n + column);
      });
}

}  // namespace

#define E4M3_CONV(name, How, unit, pixels, deep)                                       \
  extern "C" __global__ void __launch_bounds__(256, 1)                                 \
      e4m3_conv_##name##unit##_##pixels(const __grid_constant__ E4m3ConvArguments p) { \
    device::begin_kernel();                                                            \
    e4m3_conv<How, unit, deep>(p);                                                     \
  }
#define E4M3_CONVS(name, How)      \
  E4M3_CONV(name, How, 16, 32, 8)  \
  E4M3_CONV(name, How, 4, 32, 8)   \
  E4M3_CONV(name, How, 1, 32, 8)   \
  E4M3_CONV(name, How, 16, 256, 1) \
  E4M3_CONV(name, How, 4, 256, 1)  \
  E4M3_CONV(name, How, 1, 256, 1)
E4M3_CONVS(, device::E4m3Codes)
E4M3_CONVS(decoded_, device::DecodedE4m3)

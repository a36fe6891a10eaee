// Products of activations and weights in E4M3: see e4m3_gemm.h.
#define SPARKPILOT_EACH_ARCHITECTURE  // by cmake/cuda.cmake
#include "ops/cuda/e4m3_codes.cuh"
#include "ops/cuda/e4m3_gemm.h"

namespace {

using sparkpilot::cuda::E4m3GemmArguments;

template <typename How, int kTiles>
__device__ __forceinline__ void e4m3_gemm(const E4m3GemmArguments& p) {
  device::byte_gemm<How, kTiles, device::kByteWarps, 1, device::MatrixRows>(
      p, [&](const float(&sums)[1], int row, int column, int) {
        device::store_e4m3_sum(p, sums[0], row, column, row * p.y_stride + column);
      });
}

}  // namespace

#define E4M3_GEMM(name, How, rows)                                          \
  extern "C" __global__ void __launch_bounds__(256)                         \
      e4m3_gemm_##name##rows(const __grid_constant__ E4m3GemmArguments p) { \
    device::begin_kernel();                                                 \
    e4m3_gemm<How, rows / 8>(p);                                            \
  }
E4M3_GEMM(, device::E4m3Codes, 8)
E4M3_GEMM(, device::E4m3Codes, 32)
E4M3_GEMM(decoded_, device::DecodedE4m3, 8)
E4M3_GEMM(decoded_, device::DecodedE4m3, 32)

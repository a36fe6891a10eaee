// Convolutions by tiles, and the sum of those whose depth is split.
#include "ops/cuda/convolution.h"

#include "ops/cuda/conv_elements.cuh"
#include "ops/cuda/conv_tile.cuh"

#define CONV(name, type, tile)                                                                           \
  extern "C" __global__ void __launch_bounds__(128, 2)                                                   \
      name(const __grid_constant__ sparkpilot::cuda::ConvArguments p) {                                  \
    constexpr sparkpilot::cuda::ConvTile kTile = sparkpilot::cuda::kConvTiles[tile];                     \
    using Image = device::ImageByPieces<device::type, kTile.pixels, kTile.pieces>;                       \
    device::conv_tile<device::type, kTile.pixels, kTile.channels, kTile.pieces, kTile.stages, Image>(p); \
  }
CONV(conv_128x64_f16, F16, 0)
CONV(conv_64x64_f16, F16, 1)
CONV(conv_64x32_f16, F16, 2)
CONV(conv_32x64_f16, F16, 3)
CONV(conv_32x32_f16, F16, 4)
CONV(conv_16x16_f16, F16, 5)
CONV(conv_128x64_bf16, BF16, 0)
CONV(conv_64x64_bf16, BF16, 1)
CONV(conv_64x32_bf16, BF16, 2)
CONV(conv_32x64_bf16, BF16, 3)
CONV(conv_32x32_bf16, BF16, 4)
CONV(conv_16x16_bf16, BF16, 5)
CONV(conv_64x64_f32, F32, 1)
CONV(conv_32x32_f32, F32, 4)
CONV(conv_16x16_f32, F32, 5)

#define CONV_ELEMENTS(name, type)                                                   \
  extern "C" __global__ void __launch_bounds__(128, 2)                              \
      name(const __grid_constant__ sparkpilot::cuda::ConvArguments p) {             \
    using Type = device::type;                                                      \
    device::conv_tile<Type, 64, 32, 4, 4, device::ImageByElements<Type, 64, 4>>(p); \
  }
CONV_ELEMENTS(conv_any_64x32_f32, F32)
CONV_ELEMENTS(conv_any_64x32_f16, F16)
CONV_ELEMENTS(conv_any_64x32_bf16, BF16)

namespace {

// A thread adds the partial sums of four channels of a pixel, in the order of the splits.
template <typename T>
__device__ __forceinline__ void conv_sum(const sparkpilot::cuda::ConvArguments& p) {
  STATIC_SHARED(float, sums, 128 * 4);
  const sparkpilot::cuda::ConvSizes& s = p.size;
  const long long pixels = static_cast<long long>(s.batch) * s.out_height * s.out_width;
  const int in_row = (s.out_channels + 3) / 4;
  const long long at = static_cast<long long>(blockIdx.x) * 128 + threadIdx.x;
  const long long row = at / in_row;
  const device::Quads quads{sums + threadIdx.x * 4, 0, 1, 1, static_cast<int>(at - row * in_row) * 4, row, pixels,
                            s.out_channels};
  const sparkpilot::cuda::Epilogue& epilogue = device::shared_epilogue(p.epilogue);
  device::add_parts(p.partial, p.splits, p.bias, quads);
  __syncthreads();
  device::apply_to_quads(epilogue, quads);
  device::store_quads<T>(p.y, quads);
}

}  // namespace

#define CONV_SUM(name, type)                                            \
  extern "C" __global__ void __launch_bounds__(128, 2)                  \
      name(const __grid_constant__ sparkpilot::cuda::ConvArguments p) { \
    device::begin_kernel();                                             \
    conv_sum<device::type>(p);                                          \
  }
CONV_SUM(conv_sum_f32, F32)
CONV_SUM(conv_sum_f16, F16)
CONV_SUM(conv_sum_bf16, BF16)

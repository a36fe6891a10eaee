// Convolutions with groups.
#include "ops/cuda/depthwise.h"

#include <type_traits>

#include "ops/cuda/pieces.cuh"
#include "ops/cuda/strided.cuh"
#include "ops/cuda/tile_epilogue.cuh"

namespace {

using sparkpilot::cuda::ConvArguments;
using sparkpilot::cuda::ConvSizes;

// A piece of 16 bytes of channels of kOutputs outputs beside each other; neighbouring threads have neighbouring pieces.
struct Strip {
  int channel, image, out_y, out_x;
  bool there;

  __device__ __forceinline__ Strip(const ConvSizes& s, int channels_of_piece, int outputs) {
    const long long thread = static_cast<long long>(blockIdx.x) * 128 + threadIdx.x;
    const int pieces = s.channels / channels_of_piece, strips = (s.out_width + outputs - 1) / outputs;
    const long long column = thread / pieces, line = column / strips;
    channel = static_cast<int>(thread - column * pieces) * channels_of_piece;
    out_x = static_cast<int>(column - line * strips) * outputs;
    image = static_cast<int>(line / s.out_height);
    out_y = static_cast<int>(line - static_cast<long long>(image) * s.out_height);
    there = image < s.batch;
  }
};

__device__ __forceinline__ bool inside(int at, int size) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(size);
}

template <int kEach>
__device__ __forceinline__ void add_products(float (&sums)[kEach], const float (&x)[kEach], const float (&w)[kEach]) {
#pragma unroll
  for (int e = 0; e < kEach; ++e) sums[e] += x[e] * w[e];
}

template <typename T, int kKernel, int kOutputs>
__device__ __forceinline__ void depthwise(const ConvArguments& p) {
  using Bits = typename T::Bits;
  constexpr int kEach = device::kPiece<T>, kQuads = kEach / 4;
  STATIC_SHARED(float, shared, 128 * kEach * kOutputs);
  const ConvSizes& s = p.size;
  const Strip strip(s, kEach, kOutputs);
  if (!strip.there) return;
  const Bits* const image =
      static_cast<const Bits*>(p.x) + static_cast<long long>(strip.image) * s.height * s.width * s.channels;
  const Bits* const weights = static_cast<const Bits*>(p.weights) + strip.channel;
  const int top = strip.out_y * s.stride_height - s.pad_top, left = strip.out_x * s.stride_width - s.pad_left;

  float sums[kOutputs][kEach] = {};
  if (p.bias) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      float four[4];
      device::load_piece<device::F32>(p.bias + q * (s.channels / kQuads) + strip.channel / kQuads, four);
#pragma unroll
      for (int i = 0; i < kOutputs; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][q * 4 + e] = four[e];
    }
  }
#pragma unroll 1
  for (int ky = 0; ky < kKernel; ++ky) {
    const int y = top + ky * s.dilation_height;
    if (!inside(y, s.height)) continue;
    const Bits* const line = image + y * s.width * s.channels + strip.channel;
    const Bits* const row = weights + ky * kKernel * s.channels;
    if constexpr (kOutputs > 1) {
      float w[kKernel][kEach];
#pragma unroll
      for (int kx = 0; kx < kKernel; ++kx) device::load_piece<T>(row + kx * s.channels, w[kx]);
#pragma unroll
      for (int column = 0; column < kKernel + kOutputs - 1; ++column) {
        float x[kEach] = {};
        if (inside(left + column, s.width)) device::load_piece<T>(line + (left + column) * s.channels, x);
#pragma unroll
        for (int i = 0; i < kOutputs; ++i) {
          if (column - i >= 0 && column - i < kKernel) add_products(sums[i], x, w[column - i]);
        }
      }
    } else {
#pragma unroll
      for (int kx = 0; kx < kKernel; ++kx) {
        const int column = left + kx * s.dilation_width;
        float x[kEach] = {}, w[kEach];
        device::load_piece<T>(row + kx * s.channels, w);
        if (inside(column, s.width)) device::load_piece<T>(line + column * s.channels, x);
        add_products(sums[0], x, w);
      }
    }
  }

  const long long first = (static_cast<long long>(strip.image) * s.out_height + strip.out_y) * s.out_width;
  float* const mine = shared + threadIdx.x * 4;
#pragma unroll
  for (int i = 0; i < kOutputs; ++i) {
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const float* const four = sums[i] + q * 4;
      device::store_16(mine + (i * kQuads + q) * 512, {__float_as_uint(four[0]), __float_as_uint(four[1]),
                                                       __float_as_uint(four[2]), __float_as_uint(four[3])});
    }
  }
#pragma unroll 1
  for (int q = 0; q < kQuads; ++q) {
    device::apply_to_quads(p.epilogue, {mine + q * 512, kQuads * 512, kOutputs, 1, strip.channel + q * 4,
                                        first + strip.out_x, first + s.out_width, s.channels});
  }
#pragma unroll 1
  for (int i = 0; i < kOutputs && strip.out_x + i < s.out_width; ++i) {
    float values[kEach];
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const uint4 bits = device::load_16(mine + (i * kQuads + q) * 512);
      values[q * 4] = __uint_as_float(bits.x), values[q * 4 + 1] = __uint_as_float(bits.y);
      values[q * 4 + 2] = __uint_as_float(bits.z), values[q * 4 + 3] = __uint_as_float(bits.w);
    }
    device::store_piece<T>(static_cast<Bits*>(p.y) + (first + strip.out_x + i) * s.channels + strip.channel, values);
  }
}

// Two elements beside each other, at a multiple of their bytes.
template <typename T>
__device__ __forceinline__ void load_two(const typename T::Bits* from, float (&out)[2]) {
  if constexpr (sizeof(typename T::Bits) == 4) {
    const uint2 two = device::load_8(from);
    out[0] = __uint_as_float(two.x), out[1] = __uint_as_float(two.y);
  } else {
    const float2 two = T::values(*reinterpret_cast<const uint32_t*>(from));
    out[0] = two.x, out[1] = two.y;
  }
}

// Four elements at a multiple of their bytes, loaded ahead of begin_kernel(); their values later.
template <typename T>
class FourAhead {
 public:
  __device__ __forceinline__ void load(const typename T::Bits* from) {
    if constexpr (kWide) bits_ = device::load_16_ahead(from);
    else bits_ = device::load_8_ahead(from);
  }
  __device__ __forceinline__ void values(float (&out)[4]) const {
    if constexpr (kWide) {
      out[0] = __uint_as_float(bits_.x), out[1] = __uint_as_float(bits_.y);
      out[2] = __uint_as_float(bits_.z), out[3] = __uint_as_float(bits_.w);
    } else {
      const float2 low = T::values(bits_.x), high = T::values(bits_.y);
      out[0] = low.x, out[1] = low.y, out[2] = high.x, out[3] = high.y;
    }
  }

 private:
  static constexpr bool kWide = sizeof(typename T::Bits) == 4;
  std::conditional_t<kWide, uint4, uint2> bits_;
};

// A lane for four output channels of a pixel, of kFilters filters for each channel of the image, and a warp for each
// row of the kernel, whose sums the first warp adds up: where few warps have a multiprocessor each, the time is the
// number of instructions of one.
template <typename T, int kKernel, int kFilters>
__device__ __forceinline__ void depthwise_rows(const ConvArguments& p) {
  using Bits = typename T::Bits;
  constexpr int kChannels = 4 / kFilters, kQuads = device::kPiece<T> / 4;
  STATIC_SHARED(float, partial, kKernel * 32 * 4);
  const sparkpilot::cuda::Epilogue& epilogue = device::shared_epilogue(p.epilogue);
  const ConvSizes& s = p.size;
  const int ky = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  unsigned rest = blockIdx.x * 32 + static_cast<unsigned>(lane);
  const int quad = static_cast<int>(device::divide(rest, p.by.quads));
  const long long pixel = rest;
  const int left = static_cast<int>(device::divide(rest, p.by.out_width)) * s.stride_width - s.pad_left;
  const int top = static_cast<int>(device::divide(rest, p.by.out_height)) * s.stride_height - s.pad_top;
  const auto image = static_cast<long long>(rest);
  const int y = top + ky * s.dilation_height;
  const Bits* const row =
      static_cast<const Bits*>(p.x) + (image * s.height + y) * s.width * s.channels + quad * kChannels;
  const Bits* const weights = static_cast<const Bits*>(p.weights) + ky * kKernel * s.out_channels + quad * 4;
  FourAhead<T> filter[kKernel];
  if (!p.constant_weights) device::begin_kernel();
#pragma unroll
  for (int kx = 0; kx < kKernel; ++kx) filter[kx].load(weights + kx * s.out_channels);
  device::begin_kernel();

  float sums[4] = {};
  if (p.bias && ky == 0)
    device::load_piece<device::F32>(p.bias + quad % kQuads * (s.out_channels / kQuads) + quad / kQuads * 4, sums);
  if (image < s.batch && inside(y, s.height)) {
    float from[kKernel][kChannels] = {};
#pragma unroll
    for (int kx = 0; kx < kKernel; ++kx) {
      const int column = left + kx * s.dilation_width;
      if (!inside(column, s.width)) continue;
      if constexpr (kFilters == 1) device::load_four<T>(row + column * s.channels, from[kx]);
      else load_two<T>(row + column * s.channels, from[kx]);
    }
#pragma unroll
    for (int kx = 0; kx < kKernel; ++kx) {
      float w[4];
      filter[kx].values(w);
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[e] += from[kx][e / kFilters] * w[e];
    }
  }
  float* const mine = partial + lane * 4;
  device::store_16(mine + ky * 128, {__float_as_uint(sums[0]), __float_as_uint(sums[1]), __float_as_uint(sums[2]),
                                     __float_as_uint(sums[3])});
  __syncthreads();
  device::let_next_begin();
  if (ky > 0 || image >= s.batch) return;
#pragma unroll
  for (int other = 1; other < kKernel; ++other) {
    float add[4];
    device::load_piece<device::F32>(mine + other * 128, add);
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[e] += add[e];
  }
  device::store_16(
      mine, {__float_as_uint(sums[0]), __float_as_uint(sums[1]), __float_as_uint(sums[2]), __float_as_uint(sums[3])});
  const device::Quads one{mine, 0, 1, 1, quad * 4, pixel, pixel + 1, s.out_channels};
  device::apply_to_quads(epilogue, one);
  device::store_quads<T>(p.y, one);
}

// A thread for each output element.
template <typename T>
__device__ __forceinline__ void grouped(const ConvArguments& p) {
  using Bits = typename T::Bits;
  const ConvSizes& s = p.size;
  const long long at = static_cast<long long>(blockIdx.x) * 128 + threadIdx.x, pixel = at / s.out_channels;
  const int out = static_cast<int>(at - pixel * s.out_channels);
  if (pixel >= static_cast<long long>(s.batch) * s.out_height * s.out_width) return;
  const long long line = pixel / s.out_width, image = line / s.out_height;
  const int top = static_cast<int>(line - image * s.out_height) * s.stride_height - s.pad_top;
  const int left = static_cast<int>(pixel - line * s.out_width) * s.stride_width - s.pad_left;
  const int in_group = s.channels / s.groups, group = out / (s.out_channels / s.groups);
  const Bits* const x = static_cast<const Bits*>(p.x) + image * s.height * s.width * s.channels + group * in_group;
  const Bits* w = static_cast<const Bits*>(p.weights) + out;
  float sum = p.bias ? p.bias[out] : 0.0f;
#pragma unroll 1
  for (int ky = 0; ky < s.kernel_height; ++ky) {
#pragma unroll 1
    for (int kx = 0; kx < s.kernel_width; ++kx) {
      const int y = top + ky * s.dilation_height, column = left + kx * s.dilation_width;
      if (inside(y, s.height) && inside(column, s.width)) {
        const Bits* const from = x + (y * s.width + column) * s.channels;
#pragma unroll 4
        for (int c = 0; c < in_group; ++c)
          sum += T::value(from[c]) * T::value(w[static_cast<long long>(c) * s.out_channels]);
      }
      w += static_cast<long long>(in_group) * s.out_channels;
    }
  }
  static_cast<Bits*>(p.y)[at] = T::rounded(device::apply_epilogue(p.epilogue, sum, pixel, out));
}

}  // namespace

// `blocks` on a multiprocessor at once is what registers allow without spills.
#define DEPTHWISE(name, type, kernel, outputs, blocks)                                                      \
  extern "C" __global__ void __launch_bounds__(128, blocks) name(const __grid_constant__ ConvArguments p) { \
    device::begin_kernel();                                                                                 \
    depthwise<device::type, kernel, outputs>(p);                                                            \
  }
#define ROWS(name, type, kernel, filters)                                                                      \
  extern "C" __global__ void __launch_bounds__(32 * kernel, 2) name(const __grid_constant__ ConvArguments p) { \
    depthwise_rows<device::type, kernel, filters>(p);                                                          \
  }
#define ROWS_OF_KERNEL(k, suffix, type)                 \
  ROWS(depthwise_##k##x##k##_rows_##suffix, type, k, 1) \
  ROWS(depthwise_##k##x##k##_double_##suffix, type, k, 2)
#define STRIPS_OF_TYPE(suffix, type)                                                     \
  DEPTHWISE(depthwise_3x3_strip_##suffix, type, 3, sparkpilot::cuda::kDepthwiseStrip, 4) \
  DEPTHWISE(depthwise_7x7_strip_##suffix, type, 7, sparkpilot::cuda::kDepthwiseStrip, 2)
#define KERNELS_OF_TYPE(suffix, type)                                                                           \
  DEPTHWISE(depthwise_3x3_##suffix, type, 3, 1, 4)                                                              \
  DEPTHWISE(depthwise_5x5_##suffix, type, 5, 1, 4)                                                              \
  DEPTHWISE(depthwise_7x7_##suffix, type, 7, 1, 4)                                                              \
  extern "C" __global__ void __launch_bounds__(128) grouped_##suffix(const __grid_constant__ ConvArguments p) { \
    device::begin_kernel();                                                                                     \
    grouped<device::type>(p);                                                                                   \
  }
KERNELS_OF_TYPE(f32, F32)
KERNELS_OF_TYPE(f16, F16)
KERNELS_OF_TYPE(bf16, BF16)
ROWS_OF_KERNEL(3, f32, F32)
ROWS_OF_KERNEL(3, f16, F16)
ROWS_OF_KERNEL(3, bf16, BF16)
ROWS_OF_KERNEL(5, f32, F32)
ROWS_OF_KERNEL(5, f16, F16)
ROWS_OF_KERNEL(5, bf16, BF16)
ROWS_OF_KERNEL(7, f32, F32)
ROWS_OF_KERNEL(7, f16, F16)
ROWS_OF_KERNEL(7, bf16, BF16)
STRIPS_OF_TYPE(f16, F16)
STRIPS_OF_TYPE(bf16, BF16)

// The image of a 1x1 convolution's tile (conv_tile.cuh) as the depthwise convolution before it gives it, computed where
// it is needed.
#pragma once

#include "ops/cuda/conv_tile.cuh"
#include "ops/cuda/pieces.cuh"

namespace device {

// A thread computes a piece of 16 bytes of channels of each of its rows.
template <typename T, int kM, int kPieces, int kRing>
class ImageByDepthwise {
 public:
  __device__ __forceinline__ ImageByDepthwise(const sparkpilot::cuda::ConvArguments& p, long long first_pixel,
                                              int first_step)
      : channel_((first_step * kPieces + piece()) * 8) {
    const sparkpilot::cuda::ConvSizes& s = p.size;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Corner corner(s, first_pixel + row() + i * kRowsAtOnce);
      y_[i] = corner.y;
      x_[i] = corner.x;
      at_[i] = ((static_cast<long long>(corner.image) * s.height + corner.y) * s.width + corner.x) * s.channels;
    }
  }

  __device__ __forceinline__ void begin(const sparkpilot::cuda::ConvArguments& p, unsigned char*) {
    const sparkpilot::cuda::ConvSizes& s = p.size;
    float sums[kRows][8] = {};
    if (channel_ < s.channels) {
      convolve(p, sums);
      if (p.epilogue.count > 0) apply(p, sums);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float(&v)[8] = sums[i];
      pieces_[i] = {T::pair(v[0], v[1]), T::pair(v[2], v[3]), T::pair(v[4], v[5]), T::pair(v[6], v[7])};
    }
    channel_ += kPieces * 8;
  }
  __device__ __forceinline__ void end(unsigned char* buffer) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      store_16(buffer + piece_place<kPieces>(row() + i * kRowsAtOnce, piece()), pieces_[i]);
  }

 private:
  using Bits = typename T::Bits;
  static constexpr int kRowsAtOnce = kConvThreads / kPieces, kRows = kM / kRowsAtOnce;
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kPieces; }
  static __device__ __forceinline__ int piece() { return static_cast<int>(threadIdx.x) % kPieces; }

  __device__ __forceinline__ void convolve(const sparkpilot::cuda::ConvArguments& p, float (&sums)[kRows][8]) const {
    const sparkpilot::cuda::ConvSizes& s = p.size;
    const Bits* const image = static_cast<const Bits*>(p.x) + channel_;
    const Bits* weights = static_cast<const Bits*>(p.weights) + channel_;
    if (p.bias) {
      load_eight<F32>(p.bias + channel_, sums[0]);
#pragma unroll
      for (int i = 1; i < kRows; ++i)
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[i][e] = sums[0][e];
    }
#pragma unroll 1
    for (int dy = 0; dy < s.kernel_height * s.dilation_height; dy += s.dilation_height) {
#pragma unroll 3
      for (int dx = 0; dx < s.kernel_width * s.dilation_width; dx += s.dilation_width) {
        float w[8];
        load_eight<T>(weights, w);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          float x[8] = {};
          if (inside(y_[i] + dy, s.height) && inside(x_[i] + dx, s.width))
            load_eight<T>(image + at_[i] + (dy * s.width + dx) * s.channels, x);
#pragma unroll
          for (int e = 0; e < 8; ++e) sums[i][e] += x[e] * w[e];
        }
        weights += s.channels;
      }
    }
  }
  __device__ __forceinline__ void apply(const sparkpilot::cuda::ConvArguments& p, float (&sums)[kRows][8]) const {
    DYNAMIC_SHARED(memory);
    // Group g: four channels, half g % 2 of row g / 2.
    float* const mine = reinterpret_cast<float*>(memory + kRing) + threadIdx.x * 4;
#pragma unroll
    for (int g = 0; g < kRows * 2; ++g) {
      const float* const four = sums[g / 2] + g % 2 * 4;
      store_16(mine + g * kConvThreads * 4, {__float_as_uint(four[0]), __float_as_uint(four[1]),
                                             __float_as_uint(four[2]), __float_as_uint(four[3])});
    }
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      // Operands have no rows, so which ones these are does not matter.
      apply_to_quads(p.epilogue, {mine + half * kConvThreads * 4, 2 * kConvThreads * 4, kRows, 1, channel_ + half * 4,
                                  0, kRows, p.size.channels});
    }
#pragma unroll
    for (int g = 0; g < kRows * 2; ++g) {
      const uint4 bits = load_16(mine + g * kConvThreads * 4);
      float* const four = sums[g / 2] + g % 2 * 4;
      four[0] = __uint_as_float(bits.x), four[1] = __uint_as_float(bits.y);
      four[2] = __uint_as_float(bits.z), four[3] = __uint_as_float(bits.w);
    }
  }

  int channel_;
  int y_[kRows], x_[kRows];
  long long at_[kRows];
  uint4 pieces_[kRows];
};

}  // namespace device

// Convolutions of bytes by constant weights of bytes, as products of windows: what whole numbers and E4M3 share.
#pragma once

#include "ops/cuda/byte_gemm.cuh"
#include "ops/cuda/conv_tile.cuh"

namespace device {

__device__ __forceinline__ uint4 flipped(const uint4& words, unsigned flip) {
  return {words.x ^ flip, words.y ^ flip, words.z ^ flip, words.w ^ flip};
}

// What byte_gemm() multiplies in a convolution: the windows of pixels, by kUnit bytes of one position. Image says of
// the arguments, which have a, size and by, what is flipped in four bytes (flip) and four bytes of what lies beyond the
// image's border (padding).
template <int kUnit, typename Image>
struct Windows {
  template <int kTiles>
  class Rows {
   public:
    template <typename Arguments>
    __device__ __forceinline__ Rows(const Arguments& p, int first) : padding_(Image::padding(p)), position_(p.by, 0) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const Corner corner(p.size, p.by, first + tile * 8);
        y_[tile] = corner.y, x_[tile] = corner.x;
        at_[tile] =
            p.a + ((static_cast<long long>(corner.image) * p.size.height + corner.y) * p.size.width + corner.x) *
                      p.size.channels;
      }
    }
    template <typename Arguments>
    __device__ __forceinline__ void load(const Arguments& p, int k, uint4 (&right)[kTiles]) {
      constexpr int kUnits = 16 / kUnit;
      uint32_t words[kTiles][4];
      if (k != depth_) position_.advance(p.size, k - depth_);
      depth_ = k + 16;
#pragma unroll
      for (int i = 0; i < kUnits; ++i) {
        const sparkpilot::cuda::ConvSizes& s = p.size;
        const int dy = position_.kernel_y * s.dilation_height, dx = position_.kernel_x * s.dilation_width;
        const int offset = (dy * s.width + dx) * s.channels + position_.channel;
        const bool more = position_.kernel_y < s.kernel_height;
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const bool there = more && inside(y_[tile] + dy, s.height) && inside(x_[tile] + dx, s.width);
          read(Image::flip(p), there ? at_[tile] + offset : nullptr, i, words[tile]);
        }
        position_.advance(s, kUnit);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
        right[tile] = {words[tile][0], words[tile][1], words[tile][2], words[tile][3]};
    }

   private:
    // Unit i of four words; null: beyond the image.
    __device__ __forceinline__ void read(unsigned flip, const uint8_t* from, int i, uint32_t (&words)[4]) const {
      if constexpr (kUnit == 16) {
        const uint4 four = from ? flipped(load_16(from), flip) : uint4{padding_, padding_, padding_, padding_};
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
      } else if constexpr (kUnit == 4) {
        words[i] = from ? *reinterpret_cast<const uint32_t*>(from) ^ flip : padding_;
      } else {
        const uint32_t byte = (from ? *from ^ flip : padding_) & 0xffu;
        words[i / 4] = (i % 4 ? words[i / 4] : 0u) | byte << i % 4 * 8;
      }
    }

    unsigned padding_;
    int y_[kTiles], x_[kTiles], depth_ = 0;
    const uint8_t* at_[kTiles];
    DepthPosition position_;
  };
};

}  // namespace device

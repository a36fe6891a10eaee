// The image of a tile (conv_tile.cuh) from single elements: for numbers of channels that do not fill pieces of 16
// bytes, planes (N, C, H, W) and images of other types, as the first layers of vision networks have them. 32 lanes read
// 32 pixels beside each other, so a plane's rows are read together; channels that lie together come from the
// first-level cache.
#pragma once

#include "ops/cuda/conv_tile.cuh"

namespace device {

template <typename T, int kM, int kPieces>
class ImageByElements {
 public:
  __device__ __forceinline__ ImageByElements(const sparkpilot::cuda::ConvArguments& p, long long first_pixel,
                                             int first_step)
      : position_(p.by, (first_step * kPieces + first_piece()) * kEach) {
    const Corner corner(p.size, p.by, first_pixel + row());
    y_ = corner.y;
    x_ = corner.x;
    image_ = corner.image * p.x_image;
  }

  // Reads the next step's elements; end() puts them into the buffer, so that products go on meanwhile.
  __device__ __forceinline__ void begin(const sparkpilot::cuda::ConvArguments& p, unsigned char*) {
    using sparkpilot::cuda::ImageStorage;
    switch (p.x_storage) {
      case ImageStorage::f32: read<F32>(p); break;
      case ImageStorage::bytes: read<Bytes>(p); break;
      case ImageStorage::bytes_together: read_together(p); break;
      default: read<T>(p);
    }
    position_.advance(p.size, (kPieces - kMine) * kEach);
  }
  __device__ __forceinline__ void end(unsigned char* buffer) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) store_16(buffer + piece_place<kPieces>(row(), first_piece() + i), pieces_[i]);
  }

 private:
  using Bits = typename T::Bits;
  static constexpr int kEach = 16 / sizeof(Bits), kMine = kM * kPieces / kConvThreads;
  struct Bytes {
    using Bits = uint8_t;
    static __device__ __forceinline__ float value(Bits bits) { return static_cast<float>(bits); }
  };
  static constexpr int kTogether = 4;
  // Where the position's channel is; null outside of the image.
  template <typename Element>
  __device__ __forceinline__ const Element* pixel(const sparkpilot::cuda::ConvArguments& p,
                                                  const Element* image) const {
    const sparkpilot::cuda::ConvSizes& s = p.size;
    const int y = y_ + position_.kernel_y * s.dilation_height, x = x_ + position_.kernel_x * s.dilation_width;
    const bool there = (position_.kernel_y < s.kernel_height) & inside(y, s.height) & inside(x, s.width);
    return there ? image + (y * p.x_row + x * p.x_column + position_.channel * p.x_channel) : nullptr;
  }
  template <typename From>
  __device__ __forceinline__ void read(const sparkpilot::cuda::ConvArguments& p) {
    const sparkpilot::cuda::ConvSizes& s = p.size;
    const typename From::Bits* const image = static_cast<const typename From::Bits*>(p.x) + image_;
    typename From::Bits from[kMine * kEach];  // all under way before the first is looked at
    if (s.channels % kTogether == 0) {        // then they are of one pixel
#pragma unroll
      for (int i = 0; i < kMine * kEach; i += kTogether) {
        const typename From::Bits* const at = pixel(p, image);
#pragma unroll
        for (int e = 0; e < kTogether; ++e) from[i + e] = at ? at[e * p.x_channel] : 0;
        position_.channel += kTogether - 1;
        position_.next(s);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kMine * kEach; ++i) {
        const typename From::Bits* const at = pixel(p, image);
        from[i] = at ? *at : 0;
        position_.next(s);
      }
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      Bits bits[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        if constexpr (std::is_same_v<From, T>) bits[e] = from[i * kEach + e];
        else bits[e] = T::rounded(From::value(from[i * kEach + e]));
      }
      pieces_[i] = packed(bits);
    }
  }
  // Bytes of a piece at once.
  __device__ __forceinline__ void read_together(const sparkpilot::cuda::ConvArguments& p) {
    const sparkpilot::cuda::ConvSizes& s = p.size;
    const uint8_t* const image = static_cast<const uint8_t*>(p.x) + image_;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int y = y_ + position_.kernel_y * s.dilation_height, x = x_ + position_.kernel_x * s.dilation_width;
      uint2 bytes{};
      if (position_.kernel_y < s.kernel_height && inside(y, s.height) && inside(x, s.width)) {
        const uint8_t* const from = image + (y * p.x_row + x * p.x_column + position_.channel);
        if constexpr (kEach == 8) bytes = load_8(from);
        else bytes.x = *reinterpret_cast<const uint32_t*>(from);
      }
      Bits bits[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        bits[e] = T::rounded(static_cast<float>((e < 4 ? bytes.x : bytes.y) >> e % 4 * 8 & 0xffU));
      pieces_[i] = packed(bits);
      position_.advance(s, kEach);
    }
  }
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) % kM; }
  static __device__ __forceinline__ int first_piece() { return static_cast<int>(threadIdx.x) / kM * kMine; }
  static __device__ __forceinline__ uint4 packed(const uint16_t (&bits)[8]) {
    return {bits[0] | static_cast<uint32_t>(bits[1]) << 16, bits[2] | static_cast<uint32_t>(bits[3]) << 16,
            bits[4] | static_cast<uint32_t>(bits[5]) << 16, bits[6] | static_cast<uint32_t>(bits[7]) << 16};
  }
  static __device__ __forceinline__ uint4 packed(const float (&bits)[4]) {
    return {__float_as_uint(bits[0]), __float_as_uint(bits[1]), __float_as_uint(bits[2]), __float_as_uint(bits[3])};
  }

  DepthPosition position_;
  int y_, x_;
  long long image_;  // where it begins
  uint4 pieces_[kMine];
};

}  // namespace device

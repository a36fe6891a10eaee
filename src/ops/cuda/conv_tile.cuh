// A tile of a convolution: kM pixels of kN output channels, as a product over the depth (kernel row, kernel column,
// channel). Steps of kPieces pieces of 16 bytes of depth come into a ring of kStages buffers, each kM rows of pixels
// and kN rows of weights. Rows are swizzled, so that ldmatrix finds eight rows in eight different banks.
//
// The image comes by one of two classes, with begin() before a step's products and end() behind them: ImageByPieces
// here, ImageByElements in conv_elements.cuh.
#pragma once

#include <type_traits>

#include "ops/cuda/convolution.h"
#include "ops/cuda/strided.cuh"
#include "ops/cuda/tile_epilogue.cuh"

namespace device {

constexpr int kConvThreads = 128;

// The byte where a piece of a row of a buffer lies.
template <int kPieces>
__device__ __forceinline__ int piece_place(int row, int piece) {
  static_assert(kPieces == 4 || kPieces % 8 == 0);
  if constexpr (kPieces % 8 == 0) return (row * kPieces + (piece ^ (row & 7))) * 16;
  else return row * 64 + ((piece ^ (row >> 1)) & 3) * 16;
}

// Where an element of depth lies in an image.
struct DepthPosition {
  int channel, kernel_x, kernel_y;

  __device__ __forceinline__ DepthPosition(const sparkpilot::cuda::ConvDivisors& by, int depth) {
    auto rest = static_cast<unsigned>(depth);
    channel = static_cast<int>(divide(rest, by.channels));
    kernel_x = static_cast<int>(divide(rest, by.kernel_width));
    kernel_y = static_cast<int>(rest);
  }
  // Without a branch, so that loads before and after it go together.
  __device__ __forceinline__ void next(const sparkpilot::cuda::ConvSizes& size) {
    const bool last_channel = ++channel == size.channels;
    channel = last_channel ? 0 : channel;
    kernel_x += last_channel ? 1 : 0;
    const bool last_column = kernel_x == size.kernel_width;
    kernel_x = last_column ? 0 : kernel_x;
    kernel_y += last_column ? 1 : 0;
  }
  __device__ __forceinline__ void advance(const sparkpilot::cuda::ConvSizes& size, int by) {
    channel += by;
    settle(size);
  }
  // Channels beyond the last become those of the next taps.
  __device__ __forceinline__ void settle(const sparkpilot::cuda::ConvSizes& size) {
    while (channel >= size.channels) {
      channel -= size.channels;
      if (++kernel_x == size.kernel_width) kernel_x = 0, ++kernel_y;
    }
  }
};

// The upper left corner of an output pixel in the image; for pixels beyond the last, above every image.
struct Corner {
  int image, y, x;

  __device__ __forceinline__ Corner(const sparkpilot::cuda::ConvSizes& size, const sparkpilot::cuda::ConvDivisors& by,
                                    long long pixel) {
    const long long pixels = static_cast<long long>(size.batch) * size.out_height * size.out_width;
    unsigned rest = pixel < pixels ? static_cast<unsigned>(pixel) : 0;
    x = static_cast<int>(divide(rest, by.out_width)) * size.stride_width - size.pad_left;
    y = static_cast<int>(divide(rest, by.out_height)) * size.stride_height - size.pad_top;
    image = static_cast<int>(rest);
    if (pixel >= pixels) y = -(1 << 30);
  }
};

__device__ __forceinline__ bool inside(int at, int size) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(size);
}

// Pieces of an image of N, H, W, C, by cp.async. Which rows lie in the image is found anew only where a thread's depth
// comes to another tap: never in 1x1 convolutions.
template <typename T, int kM, int kPieces>
class ImageByPieces {
 public:
  __device__ __forceinline__ ImageByPieces(const sparkpilot::cuda::ConvArguments& p, long long first_pixel,
                                           int first_step)
      : position_(p.by, (first_step * kPieces + piece()) * kEach) {
    const sparkpilot::cuda::ConvSizes& s = p.size;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const Corner corner(s, p.by, first_pixel + row() + i * kRowsAtOnce);
      y_[i] = corner.y;
      x_[i] = corner.x;
      at_[i] = static_cast<const Bits*>(p.x) +
               ((static_cast<long long>(corner.image) * s.height + corner.y) * s.width + corner.x) * s.channels;
    }
  }

  // The next step's pieces, into a buffer. Where none is read, the address may lie outside of the image.
  __device__ __forceinline__ void begin(const sparkpilot::cuda::ConvArguments& p, unsigned char* buffer) {
    const sparkpilot::cuda::ConvSizes& s = p.size;
    if (there_ == kUnknown || position_.channel >= s.channels) {
      position_.settle(s);
      const int dy = position_.kernel_y * s.dilation_height, dx = position_.kernel_x * s.dilation_width;
      offset_ = (dy * s.width + dx) * s.channels + position_.channel;
      there_ = 0;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if (inside(y_[i] + dy, s.height) && inside(x_[i] + dx, s.width)) there_ |= 16U << i;
      }
      if (position_.kernel_y >= s.kernel_height) there_ = 0;
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      copy_async<16>(buffer + piece_place<kPieces>(row() + i * kRowsAtOnce, piece()), at_[i] + offset_,
                     static_cast<int>(there_ >> i & 16U));
    }
    position_.channel += kPieces * kEach;
    offset_ += kPieces * kEach;
  }
  __device__ __forceinline__ void end(unsigned char*) {}

 private:
  using Bits = typename T::Bits;
  static constexpr int kEach = 16 / sizeof(Bits), kRowsAtOnce = kConvThreads / kPieces, kRows = kM / kRowsAtOnce;
  static constexpr unsigned kUnknown = ~0U;
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kPieces; }
  static __device__ __forceinline__ int piece() { return static_cast<int>(threadIdx.x) % kPieces; }

  DepthPosition position_;     // its channel is beyond the last where the next tap has come
  unsigned there_ = kUnknown;  // bit 4 + i: row i of the tap lies in the image
  int offset_ = 0;             // of the tap and channel from a row's corner
  int y_[kRows], x_[kRows];
  const Bits* at_[kRows];
};

// Weights of kN channels, by cp.async.
template <int kN, int kPieces>
class WeightsByPieces {
 public:
  __device__ __forceinline__ WeightsByPieces(const sparkpilot::cuda::ConvArguments& p, int slices, int first_channel,
                                             int first_step)
      : left_(slices - (first_step * kSlices + piece() / 4)),
        channels_(p.size.out_channels - first_channel - row()),
        step_bytes_(static_cast<long long>(p.size.out_channels) * 64 * kSlices) {
    const long long slice = first_step * kSlices + piece() / 4;
    at_ = static_cast<const unsigned char*>(p.weights) + (slice * p.size.out_channels + first_channel + row()) * 64 +
          piece() % 4 * 16;
    none_ = static_cast<const unsigned char*>(p.weights);
  }
  // kAhead: maybe before begin_kernel().
  template <bool kAhead = false>
  __device__ __forceinline__ void begin(unsigned char* buffer) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const bool there = left_ > 0 && i * kRowsAtOnce < channels_;
      unsigned char* const to = buffer + piece_place<kPieces>(row() + i * kRowsAtOnce, piece());
      const unsigned char* const from = there ? at_ + i * kRowsAtOnce * 64 : none_;
      if constexpr (kAhead) copy_16_ahead(to, from, there ? 16 : 0);
      else copy_async<16>(to, from, there ? 16 : 0);
    }
    at_ += step_bytes_;
    left_ -= kSlices;
  }

 private:
  static constexpr int kSlices = kPieces / 4, kRowsAtOnce = kConvThreads / kPieces, kRows = kN / kRowsAtOnce;
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kPieces; }
  static __device__ __forceinline__ int piece() { return static_cast<int>(threadIdx.x) % kPieces; }

  const unsigned char *at_, *none_;
  int left_, channels_;
  long long step_bytes_;
};

// What a warp has of a tile: half of its rows by half of its columns, or all of it and every fourth part of the depth.
template <int kM, int kN>
struct WarpShare {
  static constexpr bool kByDepth = sparkpilot::cuda::ConvTile{kM, kN}.by_depth();
  static constexpr int kSlices = kByDepth ? kConvThreads / 32 : 1;
  static constexpr int kRows = kByDepth ? kM : kM / 2, kColumns = kByDepth ? kN : kN / 2;
  static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
  static __device__ __forceinline__ int first_row() { return kByDepth ? 0 : warp() / 2 * kRows; }
  static __device__ __forceinline__ int first_column() { return kByDepth ? 0 : warp() % 2 * kColumns; }
  static __device__ __forceinline__ int slice() { return kByDepth ? warp() : 0; }
};

// A warp's sums, by mma.
template <typename T, int kM, int kN, int kPieces>
class Products {
 public:
  // bias(column of the tile) is what a sum begins with.
  template <typename Bias>
  __device__ __forceinline__ explicit Products(const Bias& bias) {
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float value = bias(column(j) + e);
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) sums_[i][j][e] = sums_[i][j][e + 2] = value;
      }
    }
  }
  __device__ __forceinline__ void add(const unsigned char* pixels, const unsigned char* weights) {
#pragma unroll
    for (int first = 0; first < kPieces / 2; first += Share::kSlices) {
      const int k = first + Share::slice();
      uint32_t a[kTilesM][4], b[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        load_matrix_x4(a[i], pixels + piece_place<kPieces>(first_row() + i * 16 + lane() % 16, k * 2 + lane() / 16));
      }
#pragma unroll
      for (int j = 0; j < kTilesN; j += 2) {
        uint32_t four[4];
        const int row = first_column() + j * 8 + lane() / 16 * 8 + lane() % 8;
        load_matrix_x4(four, weights + piece_place<kPieces>(row, k * 2 + lane() / 8 % 2));
        b[j][0] = four[0], b[j][1] = four[1], b[j + 1][0] = four[2], b[j + 1][1] = four[3];
      }
      if constexpr (std::is_same_v<T, F16>) mma_tile_f16(sums_, a, b);
      else mma_tile_bf16(sums_, a, b);
    }
  }
  __device__ __forceinline__ void put(float* tile, int pitch) const {
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
      for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          store_8(tile + (first_row() + i * 16 + lane() / 4 + r * 8) * pitch + column(j),
                  {__float_as_uint(sums_[i][j][r * 2]), __float_as_uint(sums_[i][j][r * 2 + 1])});
        }
      }
    }
  }

 private:
  using Share = WarpShare<kM, kN>;
  static constexpr int kTilesM = Share::kRows / 16, kTilesN = Share::kColumns / 8;
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int first_row() { return Share::first_row(); }
  static __device__ __forceinline__ int first_column() { return Share::first_column(); }
  static __device__ __forceinline__ int column(int j) { return first_column() + j * 8 + lane() % 4 * 2; }

  float sums_[kTilesM][kTilesN][4];
};

// The same in fp32: a lane has rows lane / 8 + 4 i and columns lane % 8 + 8 j of its warp's share.
template <int kM, int kN, int kPieces>
class Products<F32, kM, kN, kPieces> {
 public:
  template <typename Bias>
  __device__ __forceinline__ explicit Products(const Bias& bias) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float value = bias(column(j));
#pragma unroll
      for (int i = 0; i < kRows; ++i) sums_[i][j] = value;
    }
  }
  __device__ __forceinline__ void add(const unsigned char* pixels, const unsigned char* weights) {
#pragma unroll 2
    for (int k = Share::slice(); k < kPieces; k += Share::kSlices) {
      float4 b[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) b[j] = four(weights + piece_place<kPieces>(column(j), k));
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float4 a = four(pixels + piece_place<kPieces>(row(i), k));
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float& sum = sums_[i][j];
          sum += a.x * b[j].x;
          sum += a.y * b[j].y;
          sum += a.z * b[j].z;
          sum += a.w * b[j].w;
        }
      }
    }
  }
  __device__ __forceinline__ void put(float* tile, int pitch) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) tile[row(i) * pitch + column(j)] = sums_[i][j];
    }
  }

 private:
  using Share = WarpShare<kM, kN>;
  static constexpr int kRows = Share::kRows / 4, kColumns = Share::kColumns / 8;
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ __forceinline__ int row(int i) { return Share::first_row() + lane() / 8 + i * 4; }
  static __device__ __forceinline__ int column(int j) { return Share::first_column() + lane() % 8 + j * 8; }
  static __device__ __forceinline__ float4 four(const void* at) {
    const uint4 bits = load_16(at);
    return {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w)};
  }

  float sums_[kRows][kColumns];
};

template <typename T, int kM, int kN, int kPieces, int kStages, typename Image>
__device__ __forceinline__ void conv_tile(const sparkpilot::cuda::ConvArguments& p) {
  constexpr int kImage = kM * kPieces * 16, kStage = (kM + kN) * kPieces * 16, kPitch = tile_pitch(kN);
  DYNAMIC_SHARED(memory);
  const sparkpilot::cuda::ConvSizes& s = p.size;
  const long long first_pixel = static_cast<long long>(blockIdx.x) * kM;
  const int first_channel = static_cast<int>(blockIdx.y) * kN, split = static_cast<int>(blockIdx.z);
  const int bytes = s.kernel_height * s.kernel_width * s.channels * static_cast<int>(sizeof(typename T::Bits));
  const int slices = (bytes + 63) / 64, steps = (slices + kPieces / 4 - 1) / (kPieces / 4);
  const int each = (steps + p.splits - 1) / p.splits, first = split * each, count = least(each, steps - first);

  const EpilogueWord word(p.epilogue);
  Image image(p, first_pixel, first);
  WeightsByPieces<kN, kPieces> weights(p, slices, first_channel, first);
  if (!p.constant_weights) begin_kernel();
  for (int step = 0; step < least(kStages - 1, count); ++step)
    weights.template begin<true>(memory + step * kStage + kImage);
  begin_kernel();
  using Share = WarpShare<kM, kN>;
  const bool alone = p.splits == 1;
  Products<T, kM, kN, kPieces> products([&](int column) {
    const int channel = first_channel + column;
    return alone && p.bias && Share::slice() == 0 && channel < s.out_channels ? p.bias[channel] : 0.0f;
  });
  unsigned char *now = memory, *next = memory;
  // The first rounds only begin steps, so that kStages - 1 of them are under way, whose weights are already.
#pragma unroll 1
  for (int step = 1 - kStages; step < count; ++step) {
    if (step >= 0) {
      copy_wait<kStages - 2>();
      __syncthreads();  // all have this step's pieces, and are done with the buffer of the step before
    }
    const bool more = step + kStages - 1 < count;
    if (more) {
      image.begin(p, next);
      if (step >= 0) weights.begin(next + kImage);
    }
    copy_commit();
    if (step >= 0) {
      products.add(now, now + kImage);
      now = now == memory + (kStages - 1) * kStage ? memory : now + kStage;
    }
    if (more) image.end(next);
    next = next == memory + (kStages - 1) * kStage ? memory : next + kStage;
  }
  copy_wait<0>();
  __syncthreads();
  let_next_begin();

  constexpr int kSums = Share::kSlices * kM * kPitch * 4;
  static_assert(kSums + EpilogueWord::kBytes <= kStages * kStage);
  const sparkpilot::cuda::Epilogue& epilogue = word.put(memory + kSums);
  float* const tile = reinterpret_cast<float*>(memory);
  products.put(tile + Share::slice() * kM * kPitch, kPitch);
  __syncthreads();
  const long long pixels = static_cast<long long>(s.batch) * s.out_height * s.out_width;
  if (beyond_quads<kM, kN, kConvThreads>()) return;
  const Quads quads = quads_of<kM, kN, kConvThreads>(tile, first_pixel, first_channel, pixels, s.out_channels);
  if constexpr (Share::kByDepth) add_slices<Share::kSlices>(quads, kM * kPitch);
  if (!alone) return store_quads<F32>(p.partial + split * pixels * s.out_channels, quads);
  apply_to_quads(epilogue, quads);
  store_quads<T>(p.y, quads);
}

}  // namespace device

// Whole numbers of 8 bits: see quantized.h.
#include "ops/cuda/quantized.h"

#include "ops/cuda/byte_conv.cuh"

namespace {

using sparkpilot::cuda::BytePoolArguments;
using sparkpilot::cuda::ByteResult;
using sparkpilot::cuda::ByteTableArguments;
using sparkpilot::cuda::ConvSizes;
using sparkpilot::cuda::QAddArguments;
using sparkpilot::cuda::QConvArguments;
using sparkpilot::cuda::QGemmArguments;

// A byte of the result: whole numbers as bytes of either sign.
__device__ __forceinline__ uint8_t byte_of(float whole) { return static_cast<uint8_t>(static_cast<int>(whole)); }

__device__ __forceinline__ float scaled(const ByteResult& result, int sum, int column) {
  return __fmaf_rn(static_cast<float>(sum), result.multiplier[column], result.shift ? result.shift[column] : 0.0f);
}
__device__ __forceinline__ uint8_t rounded(const ByteResult& result, float v) {
  return byte_of(fminf(fmaxf(rintf(v) + result.zero, result.low), result.high));
}

// The zero point that is computed in the run, as i8.
__device__ __forceinline__ int zero_of(const ByteResult& result) {
  return static_cast<int8_t>(*result.x_zero ^ result.flip);
}
__device__ __forceinline__ unsigned padding_of(const QConvArguments& p) {
  return p.result.x_zero ? (zero_of(p.result) & 0xff) * 0x01010101u : p.padding;
}
struct Image {
  static __device__ __forceinline__ unsigned flip(const QConvArguments& p) { return p.result.flip; }
  static __device__ __forceinline__ unsigned padding(const QConvArguments& p) { return padding_of(p); }
};

// kCount neighbours of y from `at` on, of which `count` are there.
template <int kCount>
__device__ __forceinline__ void store_results(const ByteResult& result, void* y, long long at,
                                              const int (&sums)[kCount], int column, int count) {
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i >= count) break;
    int sum = sums[i] + result.start[column + i];
    if (result.x_zero) sum -= zero_of(result) * result.weight_sums[column + i];
    if (result.type == ByteResult::i32) static_cast<int*>(y)[at + i] = sum;
    else if (result.type == ByteResult::f32) static_cast<float*>(y)[at + i] = scaled(result, sum, column + i);
    else word |= static_cast<uint32_t>(rounded(result, scaled(result, sum, column + i))) << i * 8;
  }
  if (result.type == ByteResult::i32 || result.type == ByteResult::f32) return;
  uint8_t* const bytes = static_cast<uint8_t*>(y) + at;
  if (kCount == 4 && count == 4 && reinterpret_cast<uintptr_t>(bytes) % 4 == 0) {
    *reinterpret_cast<uint32_t*>(bytes) = word;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < count) bytes[i] = static_cast<uint8_t>(word >> i * 8);
  }
}

struct Bytes {
  using Sum = int;
  template <int kTiles>
  static __device__ __forceinline__ void multiply(int (&sums)[1][kTiles][4], const uint4& high, const uint4& low,
                                                  const uint4 (&right)[kTiles]) {
    device::in_two_steps(high, low, right,
                         [&](const auto& rows, const auto& columns) { device::mma_tile_s8(sums, rows, columns); });
  }
};

template <int kTiles>
class FlippedRows : device::MatrixRows<kTiles> {
 public:
  using device::MatrixRows<kTiles>::MatrixRows;
  __device__ __forceinline__ void load(const QGemmArguments& p, int k, uint4 (&right)[kTiles]) {
    device::MatrixRows<kTiles>::load(p, k, right);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) right[tile] = device::flipped(right[tile], p.result.flip);
  }
};

template <int kTiles>
__device__ __forceinline__ void qgemm(const QGemmArguments& p) {
  constexpr int kEach = kTiles == 1 ? 1 : 4;
  device::byte_gemm<Bytes, kTiles, device::kByteWarps, kEach, FlippedRows>(
      p, [&](const int(&sums)[kEach], int row, int column, int count) {
        store_results(p.result, p.y, row * p.y_stride + column, sums, column, count);
      });
}

template <int kUnit, int kDeep>
__device__ __forceinline__ void qconv(const QConvArguments& p) {
  device::byte_gemm<Bytes, 4, kDeep, 4, device::Windows<kUnit, Image>::template Rows>(
      p, [&](const int(&sums)[4], int row, int column, int count) {
        store_results(p.result, p.y, static_cast<long long>(row) * p.n + column, sums, column, count);
      });
}

// A thread has kUnit neighbouring channels of a pixel; where a channel has several filters, one.
template <int kUnit>
__device__ __forceinline__ void qdepthwise(const QConvArguments& p) {
  const ConvSizes& s = p.size;
  const int in_row = s.out_channels / kUnit;
  const long long at = static_cast<long long>(blockIdx.x) * 128 + threadIdx.x, pixel = at / in_row;
  if (pixel >= static_cast<long long>(s.batch) * s.out_height * s.out_width) return;
  const int channel = static_cast<int>(at - pixel * in_row) * kUnit;
  const int from_channel = kUnit > 1 ? channel : channel / (s.out_channels / s.channels);
  const device::Corner corner(s, p.by, pixel);
  int sums[kUnit] = {};
  const uint8_t* weights = p.codes + channel;
  const unsigned padding = padding_of(p);
#pragma unroll 1
  for (int ky = 0; ky < s.kernel_height; ++ky) {
    const int y = corner.y + ky * s.dilation_height;
#pragma unroll 1
    for (int kx = 0; kx < s.kernel_width; ++kx, weights += s.out_channels) {
      const int x = corner.x + kx * s.dilation_width;
      const bool there = device::inside(y, s.height) && device::inside(x, s.width);
      const uint8_t* const from =
          p.a + ((static_cast<long long>(corner.image) * s.height + y) * s.width + x) * s.channels + from_channel;
      uint32_t image = padding, filter;
      if constexpr (kUnit == 4) {
        if (there) image = *reinterpret_cast<const uint32_t*>(from) ^ p.result.flip;
        filter = *reinterpret_cast<const uint32_t*>(weights);
      } else {
        if (there) image = *from ^ p.result.flip;
        filter = *weights;
      }
#pragma unroll
      for (int i = 0; i < kUnit; ++i)
        sums[i] += static_cast<int8_t>(image >> 8 * i) * static_cast<int8_t>(filter >> 8 * i);
    }
  }
  store_results(p.result, p.y, pixel * s.out_channels + channel, sums, channel, kUnit);
}

__device__ __forceinline__ int number(uint8_t byte, bool is_signed) {
  return is_signed ? static_cast<int>(static_cast<int8_t>(byte)) : static_cast<int>(byte);
}

__device__ __forceinline__ uint8_t added(const QAddArguments& p, uint8_t a, uint8_t b) {
  const float product = __fmul_rn(static_cast<float>(number(b, p.b_signed) - p.b_zero), p.b_scale);
  const float v = rintf(__fmaf_rn(static_cast<float>(number(a, p.a_signed) - p.a_zero), p.a_scale, product));
  return byte_of(fminf(fmaxf(v, p.low), p.high) + static_cast<float>(p.zero));
}

__device__ __forceinline__ uint8_t byte_in(const uint4& words, int i) {
  const uint32_t word = i < 4 ? words.x : i < 8 ? words.y : i < 12 ? words.z : words.w;
  return static_cast<uint8_t>(word >> i % 4 * 8);
}

// Whether a thread has 16 elements that lie at multiples of 16 bytes; `first` is the first.
__device__ __forceinline__ bool has_sixteen(const void* x, const void* z, const void* y, long long first,
                                            int elements) {
  const auto addresses =
      reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(z) | reinterpret_cast<uintptr_t>(y);
  return addresses % 16 == 0 && elements - first >= 16;
}
__device__ __forceinline__ long long first_of_sixteen() {
  return (static_cast<long long>(blockIdx.x) * 128 + threadIdx.x) * 16;
}

}  // namespace

#define QGEMM(rows)                                                                                          \
  extern "C" __global__ void __launch_bounds__(256) qgemm_##rows(const __grid_constant__ QGemmArguments p) { \
    device::begin_kernel();                                                                                  \
    qgemm<rows / 8>(p);                                                                                      \
  }
QGEMM(8)
QGEMM(32)

#define QCONV(unit, pixels, deep)                                         \
  extern "C" __global__ void __launch_bounds__(256)                       \
      qconv_##unit##_##pixels(const __grid_constant__ QConvArguments p) { \
    device::begin_kernel();                                               \
    qconv<unit, deep>(p);                                                 \
  }
QCONV(16, 32, 8)
QCONV(4, 32, 8)
QCONV(1, 32, 8)
QCONV(16, 256, 1)
QCONV(4, 256, 1)
QCONV(1, 256, 1)

#define QDEPTHWISE(unit)                                                                                          \
  extern "C" __global__ void __launch_bounds__(128) qdepthwise_##unit(const __grid_constant__ QConvArguments p) { \
    device::begin_kernel();                                                                                       \
    qdepthwise<unit>(p);                                                                                          \
  }
QDEPTHWISE(4)
QDEPTHWISE(1)

extern "C" __global__ void __launch_bounds__(128) qadd(const QAddArguments p) {
  device::begin_kernel();
  const long long first = first_of_sixteen();
  const uint8_t *const a = static_cast<const uint8_t*>(p.a) + first, *const b =
                                                                         static_cast<const uint8_t*>(p.b) + first;
  uint8_t* const y = static_cast<uint8_t*>(p.y) + first;
  if (has_sixteen(p.a, p.b, p.y, first, p.elements)) {
    const uint4 left = device::load_16(a), right = device::load_16(b);
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i)
      words[i / 4] |= static_cast<uint32_t>(added(p, byte_in(left, i), byte_in(right, i))) << i % 4 * 8;
    device::store_16(y, {words[0], words[1], words[2], words[3]});
    return;
  }
#pragma unroll 1
  for (int i = 0; i < 16 && first + i < p.elements; ++i) y[i] = added(p, a[i], b[i]);
}

extern "C" __global__ void __launch_bounds__(128) byte_table(const ByteTableArguments p) {
  device::begin_kernel();
  const long long first = first_of_sixteen();
  const uint8_t* const x = static_cast<const uint8_t*>(p.x) + first;
  uint8_t* const y = static_cast<uint8_t*>(p.y) + first;
  if (has_sixteen(p.x, p.x, p.y, first, p.elements)) {
    const uint4 from = device::load_16(x);
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i) words[i / 4] |= static_cast<uint32_t>(p.table[byte_in(from, i)]) << i % 4 * 8;
    device::store_16(y, {words[0], words[1], words[2], words[3]});
    return;
  }
#pragma unroll 1
  for (int i = 0; i < 16 && first + i < p.elements; ++i) y[i] = p.table[x[i]];
}

// A thread has one element of the result, in the order in which they lie.
extern "C" __global__ void __launch_bounds__(128) byte_pool(const BytePoolArguments p) {
  device::begin_kernel();
  const sparkpilot::cuda::PoolArguments& w = p.window;
  const long long at = static_cast<long long>(blockIdx.x) * 128 + threadIdx.x;
  if (at >= static_cast<long long>(w.batch) * w.out_height * w.out_width * w.channels) return;
  const int place = static_cast<int>(at), pixel = w.channels_first ? place : place / w.channels;
  const int line = pixel / w.out_width, column = pixel - line * w.out_width;
  const int plane = line / w.out_height, row = line - plane * w.out_height;  // an image, or a channel of one
  const int top = row * w.stride_height - w.pad_top, left = column * w.stride_width - w.pad_left;
  const int step = w.channels_first ? 1 : w.channels;
  const uint8_t* const x = static_cast<const uint8_t*>(w.x) +
                           static_cast<long long>(plane) * w.height * w.width * step +
                           (w.channels_first ? 0 : place - pixel * w.channels);
  int sum = 0, largest = -128, taps = 0, positions = 0;
#pragma unroll 1
  for (int ky = 0; ky < w.kernel_height; ++ky) {
    const int y = top + ky * w.dilation_height;
    if (y >= w.height + w.pad_bottom) break;
#pragma unroll 1
    for (int kx = 0; kx < w.kernel_width; ++kx) {
      const int from = left + kx * w.dilation_width;
      if (from >= w.width + w.pad_right) break;
      ++positions;
      if (!device::inside(y, w.height) || !device::inside(from, w.width)) continue;
      const int element = number(x[(static_cast<long long>(y) * w.width + from) * step], p.x_signed);
      sum += element - p.x_zero;
      largest = element > largest ? element : largest;
      ++taps;
    }
  }
  uint8_t* const to = static_cast<uint8_t*>(w.y) + at;
  if (!w.average) {
    *to = static_cast<uint8_t>(largest);
    return;
  }
  const int count = w.count_padding ? positions : taps;
  const float v = count > 0 ? __fmul_rn(static_cast<float>(sum), __fdiv_rn(p.scale, static_cast<float>(count))) : 0.0f;
  const float low = p.y_signed ? -128.0f : 0.0f, q = rintf(v) + p.y_zero;
  *to = byte_of(q > low ? fminf(q, low + 255.0f) : low);
}

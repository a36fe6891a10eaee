// Kernels of whole numbers of 8 bits: products and convolutions by constant weights of i8 (sparkpilot::QGemm, QConv),
// and what stands between them (sparkpilot::QAdd, ByteTable, QAveragePool). Sums are exact, so results are those of the
// CPU, bit for bit. Names:
//   qgemm_<rows>             by the rows of a block, 8 or 32
//   qconv_<unit>_<pixels>    one group, images of N, H, W, C, by the bytes of a pixel that are read at once (16, 4, 1)
//   and
//                            the pixels of a block, 32 or 256
//   qdepthwise_<unit>        filters of one channel, one or several for each, by the channels of a thread (4, 1)
//   qadd, byte_table, byte_pool
#pragma once

#include "ops/cuda/byte_conv.h"
#include "ops/cuda/pooling.h"

namespace sparkpilot::cuda {

// How the sum of a column becomes an element (ops/quantized/quantized_fused.cc).
struct ByteResult {
  enum Type : uint8_t { u8, i8, i32, f32 } type;
  unsigned flip;            // makes i8 of the input's bytes: 0x80808080 of u8, 0 of i8
  const int* start;         // [columns]: the bias, less what the zero point of the input adds if that is known
  const float* multiplier;  // [columns]
  const float* shift;       // [columns] or null
  float low, high, zero;    // of bytes: clamped to [low, high] when the zero point has been added
  const uint8_t* x_zero;    // the zero point of the input if it is computed in the run, else null
  const int* weight_sums;   // [columns]: then
};

// y[m, n] of a[m, k], bytes, by codes[n, k].
struct QGemmArguments {
  const uint8_t* a;
  const uint8_t* codes;  // zeros from k to code_bytes
  void* y;
  int m, n, k;
  long long code_bytes;  // of a row of weights: byte_gemm_depth()
  long long a_stride, y_stride;
  ByteResult result;
};

// The same of windows: m pixels, n output channels, k = kernel row, kernel column, channel. Of qdepthwise codes are
// [kernel row, kernel column, output channel], and m, n, k and code_bytes are not read.
struct QConvArguments {
  const uint8_t* a;
  const uint8_t* codes;
  void* y;  // [pixels, out_channels]
  ConvSizes size;
  ConvDivisors by;  // of `size`
  int m, n, k;
  unsigned padding;  // four bytes of the zero point, flipped, if it is known: what lies beyond the image's border
  long long code_bytes;
  ByteResult result;
};

// y = clamp(round(fma(a - a_zero, a_scale, (b - b_zero) * b_scale)), low, high) + zero, as the CPU's.
struct QAddArguments {
  const void *a, *b;
  void* y;
  bool a_signed, b_signed;
  int a_zero, b_zero, zero;
  float a_scale, b_scale, low, high;
  int elements;
};

struct ByteTableArguments {
  const uint8_t* table;  // 256 bytes
  const void* x;
  void* y;
  int elements;
};

// Of a window: the mean of its elements less x_zero, times `scale`, plus y_zero, saturated; or the largest.
struct BytePoolArguments {
  PoolArguments window;
  bool x_signed, y_signed;
  int x_zero;
  float y_zero, scale;
};

constexpr int qdepthwise_unit(const ConvSizes& size) {
  return size.out_channels == size.channels && size.channels % 4 == 0 ? 4 : 1;
}
KernelLaunch qdepthwise_launch(const QConvArguments& arguments, int unit);
KernelLaunch byte_elements_launch(int elements);  // qadd, byte_table: 16 a thread
KernelLaunch byte_pool_launch(const PoolArguments& window);

}  // namespace sparkpilot::cuda

// Kernels of convolutions of images in E4M3 by constant weights in E4M3 (sparkpilot::ScaledConv), of one group, images
// and results being N, H, W, C. Names:
//   e4m3_conv_<unit>_<pixels>           from 8.9 on, where `mma` takes the codes
//   e4m3_conv_decoded_<unit>_<pixels>   decodes both to f16, where every code is exact
// by the bytes of a pixel that are read at once (16, 4, 1), and the pixels of a block (32, 256).
#pragma once

#include "ops/cuda/byte_conv.h"
#include "ops/cuda/epilogue.h"

namespace sparkpilot::cuda {

// y[pixel, channel] = epilogue(sum over the window of a x codes, times scales[channel], plus bias[channel]), sums in
// f32. NaN stays NaN. m pixels, n output channels, k = kernel row, kernel column, channel.
struct E4m3ConvArguments {
  const uint8_t* a;
  const uint8_t* codes;  // [n, code_bytes], zeros from k on
  const float* scales;   // [n], times what the kernel leaves out: e4m3_gemm_factor()
  const float* bias;     // [n] or null
  void* y;
  Storage storage;  // of y
  ConvSizes size;
  ConvDivisors by;  // of `size`
  int m, n, k;
  long long code_bytes;  // of a row of weights: byte_gemm_depth()
  Epilogue epilogue;     // operands: pixel, channel
};

}  // namespace sparkpilot::cuda

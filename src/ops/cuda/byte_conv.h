// What kernels of convolutions of bytes share (byte_conv.cuh): e4m3_conv.h, and qconv_* of quantized.h.
#pragma once

#include "ops/cuda/byte_gemm.h"
#include "ops/cuda/convolution.h"

namespace sparkpilot::cuda {

// How many bytes of a pixel are read at once.
constexpr int byte_conv_unit(const ConvSizes& size) {
  return size.channels % 16 == 0 ? 16 : size.channels % 4 == 0 ? 4 : 1;
}
// The pixels of a block, by the depth: little of it is not shared between warps.
constexpr int byte_conv_pixels(int k) { return k > 256 ? 32 : 256; }
constexpr int64_t most_byte_conv_pixels(int k) { return int64_t{65535} * byte_conv_pixels(k); }  // of a launch
// Of m pixels and n channels.
KernelLaunch byte_conv_launch(int m, int n, int k);

}  // namespace sparkpilot::cuda

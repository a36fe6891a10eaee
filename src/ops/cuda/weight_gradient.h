// Gradients of the weights of convolutions whose filters have one channel each: their arguments and launches. f32.
// depthwise_gradient_<w>_f32 for filters w elements wide, of depthwise_gradient_1_f32 any;
// depthwise_gradient_sum_f32 adds up the parts.
#pragma once

#include <cstddef>
#include <string>

#include "ops/cuda/convolution.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// dw[o, ky, kx] = sum of dy[pixel, o] x[the pixel's window at ky, kx, o / (outputs of a channel)], in an order that
// only the arguments fix. Images have channels last.
struct DepthwiseGradientArguments {
  const float* x;
  const float* dy;
  float* dw;                 // [out_channels, kernel_height, kernel_width]
  float* partial;            // [parts, kernel_height * kernel_width, out_channels], if parts > 1
  ConvSizes size;            // of the convolution
  int parts, lines_of_part;  // lines of all outputs, batch * out_height of them
  Divisor of_out_height;
};
// Sets parts, lines_of_part and of_out_height for a GPU with this many multiprocessors.
void set_gradient_parts(DepthwiseGradientArguments& arguments, int multiprocessors);
size_t gradient_partial_bytes(const DepthwiseGradientArguments& arguments);  // 0 for one part
std::string gradient_kernel(const ConvSizes& size);
KernelLaunch gradient_launch(const DepthwiseGradientArguments& arguments);
KernelLaunch gradient_sum_launch(const DepthwiseGradientArguments& arguments);

}  // namespace sparkpilot::cuda

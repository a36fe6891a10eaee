// Convolutions on a GPU, for the ops Conv and ConvTranspose of both domains: 1-D and 2-D, in f32, f16 and bf16, with
// constant weights, in f32 also with others. Kernels work with channels last; images and outputs with channels first
// are transposed where a kernel does not read them as they are. A transposed convolution is one by turned weights, of
// the image with zeros between its pixels where it has strides.
#pragma once

#include <span>

#include "ir/op.h"
#include "ops/cpu/conv/conv_shape.h"
#include "ops/cuda/convolution.h"

namespace sparkpilot::cuda {

std::span<const Kernel> conv_candidates();

// Of a convolution of at most two dimensions (takes_window).
ConvSizes conv_sizes(const ConvShape& shape);

}  // namespace sparkpilot::cuda

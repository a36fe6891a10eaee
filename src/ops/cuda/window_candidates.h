// The geometry of windows as kernels for images of two dimensions take it; one dimension is an image of height 1.
#pragma once

#include "ir/op.h"
#include "ops/cpu/conv/window.h"
#include "ops/cuda/candidate_shapes.h"

namespace sparkpilot::cuda {

// Whether it has at most two dimensions, and sizes whose sums and products kernels can compute.
Acceptance takes_window(const KernelWindow& window);

// Sets the sizes of the image, the output and the window: those of ConvSizes and PoolArguments.
template <typename Sizes>
void set_window(const KernelWindow& from, Sizes& to) {
  const auto height = [](const KernelWindow::Dims& dims) { return static_cast<int>(dims[1]); };
  const auto width = [](const KernelWindow::Dims& dims) { return static_cast<int>(dims[2]); };
  to.height = height(from.in), to.width = width(from.in);
  to.out_height = height(from.out), to.out_width = width(from.out);
  to.kernel_height = height(from.kernel), to.kernel_width = width(from.kernel);
  to.stride_height = height(from.stride), to.stride_width = width(from.stride);
  to.dilation_height = height(from.dilation), to.dilation_width = width(from.dilation);
  to.pad_top = height(from.pad_begin), to.pad_left = width(from.pad_begin);
}

}  // namespace sparkpilot::cuda

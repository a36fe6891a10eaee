// The shape of a convolution: geometry, channels, groups and layout, as every convolution op needs them before it runs.
#pragma once

#include "ir/op.h"
#include "ops/cpu/conv/window.h"

namespace sparkpilot {

struct ConvShape {
  KernelWindow window;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  bool channels_last = false;
  ImageStrides x, y;

  int64_t in_per_group() const { return in_channels / groups; }
  int64_t out_per_group() const { return out_channels / groups; }
  int64_t weights() const { return out_channels * in_per_group() * window.kernel_size(); }
  bool empty() const { return batch == 0 || in_channels == 0 || out_channels == 0 || window.out_size() == 0; }
  // One group of 1x1 at stride 1: a matrix product of the image's rows.
  bool is_pointwise() const;
  // Each channel has a separate filter.
  bool is_depthwise() const { return groups > 1 && groups == in_channels && out_channels == in_channels; }
  Shape output() const;
  double flops() const;  // a multiply-add counts as two; padding counts as work
  double needed() const { return inside_share(window); }
};

// Conv: weights [O, I/groups, kernel]. Reads the attributes `group`, `kernel_shape`, those of sliding_window(), and
// `x_channels_first`: only the output has channels last.
// Fails (user) if the shapes or attributes do not fit together.
ConvShape conv_shape(const Attributes& attrs, const Shape& x, const Shape& weights, bool channels_last = false);

// ConvTranspose: weights [I, O/groups, kernel].
ConvShape conv_transpose_shape(const Attributes& attrs, const Shape& x, const Shape& weights);

// ConvWeightGradient: the convolution whose weights, of the spatial size `kernel_shape`, it is about, from the
// convolution's image and the gradient of its output.
ConvShape conv_weight_gradient_shape(const Attributes& attrs, const Shape& x, const Shape& dy);

// Checks that X, W and bias have the same float type and that the bias fits; fails (user).
void check_conv_operands(const InferContext& c, int64_t out_channels);

}  // namespace sparkpilot

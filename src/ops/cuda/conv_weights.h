// Weights of convolutions that are known at run time, brought to the order in which kernels read them. f32.
#pragma once

#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// to[d / together][o][d % together], d counting taps and then channels of a group, is the weight of output o; 0 from
// the last tap on. With `together` 16 that is the order of pack_conv_weights, with 1 that of pack_grouped_weights.
struct ConvWeightsArguments {
  const float* from;
  float* to;
  unsigned elements;  // of `to`
  int taps;
  Divisor together, outputs, channels, of_group;  // outputs in all, channels and outputs of a group
  // In `from`, in elements; a tap is the next element.
  int group_stride, output_stride, channel_stride;
  bool turned;  // the taps from the last to the first
};
KernelLaunch conv_weights_launch(const ConvWeightsArguments& arguments);

}  // namespace sparkpilot::cuda

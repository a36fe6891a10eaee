// The candidates of ConvWeightGradient that run on a GPU, in f32: a matrix product for one group, and a kernel for
// filters of one channel (weight_gradient.h).
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

extern const Kernel kWeightGradient[2];

}  // namespace sparkpilot::cuda

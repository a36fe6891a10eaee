// Ops on a GPU that compute rows along one axis, or the last ones: softmax and norms.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

// Softmax and LogSoftmax: along rows that lie together, and along others.
extern const Kernel kSoftmax[2], kLogSoftmax[2];
extern const Kernel kLayerNorm[1], kRmsNorm[1];
// LpNormalization and sparkpilot::L2Normalize.
extern const Kernel kLpNorm[2], kL2Norm[2];

}  // namespace sparkpilot::cuda

// sparkpilot::ConvChain on a GPU: depthwise with pointwise, in 16 bits.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

extern const Kernel kConvChain[1];

}  // namespace sparkpilot::cuda

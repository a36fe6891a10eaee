// sparkpilot::ScaledConv on a GPU: convolutions of codes of E4M3 with channels last, of one group and constant weights
// (e4m3_conv.h).
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

// Inputs of sparkpilot::ScaledConv.
struct ScaledConvInputs {
  static constexpr int kImage = 0, kCodes = 1, kScale = 2, kBias = 3;
};
extern const Kernel kScaledConv[1];

}  // namespace sparkpilot::cuda

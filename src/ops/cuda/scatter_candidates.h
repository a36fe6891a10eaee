// ScatterND on a GPU.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

// Replaced or added up, in fp32 between the stored types. A tuple out of range, which the CPU refuses, changes nothing.
extern const Kernel kScatter[1];

}  // namespace sparkpilot::cuda

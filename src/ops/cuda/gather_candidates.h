// Ops on a GPU that read by indices or by tables.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

// Indices that are out of range, which the CPU refuses, give zeros.
extern const Kernel kGather[1], kGatherElements[1];
// Resize and sparkpilot::Resize of at most two neighbouring axes.
extern const Kernel kResize[1];

}  // namespace sparkpilot::cuda

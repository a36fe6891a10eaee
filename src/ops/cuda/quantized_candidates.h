// Ops on whole numbers of 8 bits on a GPU: what the pass `int8` makes, but for pools (pool_candidates.h). Results are
// those of the CPU, bit for bit.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

extern const Kernel kQGemm[1], kQConv[2], kQAdd[1], kByteTable[1];

}  // namespace sparkpilot::cuda

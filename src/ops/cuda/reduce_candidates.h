// Reductions on a GPU.
#pragma once

#include "ir/op.h"
#include "ops/cuda/reduce.h"

namespace sparkpilot::cuda {

// `axes` as bits; none if they are not constant.
Acceptance reduce_accepts(const Problem& p, std::optional<uint32_t> axes);
std::unique_ptr<KernelState> reduce_prepare(const Problem& p, uint32_t axes, ReduceKind kind);
void reduce_run(const Call& call);

extern const Kernel kArgMax[1], kArgMin[1];

}  // namespace sparkpilot::cuda

// sparkpilot::GemmGroup on a GPU: products of one row by constant weights, in one launch.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

Acceptance gemm_group_accepts(const Problem& problem);
std::unique_ptr<KernelState> gemm_group_prepare(const Problem& problem);
std::vector<std::string> gemm_group_variants(const Problem& problem);
void gemm_group_take_variant(const Problem& problem, std::string_view variant, KernelState& state);
void gemm_group_run(const Call& call);

}  // namespace sparkpilot::cuda

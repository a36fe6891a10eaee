// Products of matrices on a GPU, for the ops Gemm, MatMul and sparkpilot::Gemm: rows by constant weights, and two
// activations.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot::cuda {

Acceptance product_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> product_prepare(const Problem& p, const GemmArgs& args);
std::vector<std::string> product_variants(const Problem& p, const GemmArgs& args);
void product_take_variant(const Problem& p, const GemmArgs& args, std::string_view variant, KernelState& state);
void product_run(const Call& call);

}  // namespace sparkpilot::cuda

// Matrix products by the project's kernel of which B is known in a run only, as in training: it is packed in the
// workspace first. f32.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

Acceptance gemm_packed_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> gemm_packed_prepare(const Problem& p, const GemmArgs& args);
void gemm_packed_run(const Call& call);

}  // namespace sparkpilot

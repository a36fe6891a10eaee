// Products of bf16 rows with constant bf16 weights by the processor's dot products: matrix products and 1x1
// convolutions.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

// As gemm_simd_accepts(), for bf16.
Acceptance gemm_dot_accepts(const Problem& p, const GemmArgs& args);
// Whether it was measured to be faster than oneDNN on such a shape (AVX-512, one core).
bool gemm_dot_wins(const GemmArgs& args);
std::unique_ptr<KernelState> gemm_dot_prepare(const Problem& p, const GemmArgs& args);

// sparkpilot::Conv whose output positions are its input's: 1x1, one group, stride 1, channels last.
Acceptance conv_dot_accepts(const Problem& p);
bool conv_dot_wins(const Problem& p);
std::unique_ptr<KernelState> conv_dot_prepare(const Problem& p);

void dot_run(const Call& call);

}  // namespace sparkpilot

// Matrix products by the project's own kernel: f32 rows, constant weights of f32, f16 or bf16.
#pragma once

#include "ops/cpu/gemm_onednn.h"

namespace sparkpilot {

// B must be constant and one matrix, A have its columns next to each other, alpha be 1, and C, where there is one, be a
// constant with one element a column.
Verdict gemm_simd_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> gemm_simd_prepare(const Problem& p, const GemmArgs& args);
void gemm_simd_run(const Call& call);

}  // namespace sparkpilot

// Matrix products by the project's own kernel: constant weights of f32, f16 or bf16, rows of f32, and of 16 bits where
// nothing computes faster with them.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

// What every kernel of rows times packed weights asks, whatever the types: B must be constant and one
// matrix, A have its columns next to each other, alpha be 1, and C, where there is one, be a constant with one element
// a column.
Verdict rows_accept(const Problem& p, const GemmArgs& args);
// Whether a step of it is an activation.
bool activates(const Epilogue& epilogue);
// beta * C, packed; marks it as consumed. Not present where there is no C.
Tensor pack_c(const Problem& p, const GemmArgs& args, uint64_t& consumed);

Verdict gemm_simd_accepts(const Problem& p, const GemmArgs& args);
// Whether it was measured to be as fast as oneDNN's on such a shape: all but plain products of very many rows.
bool gemm_simd_wins(const GemmArgs& args);
std::unique_ptr<KernelState> gemm_simd_prepare(const Problem& p, const GemmArgs& args);
void gemm_simd_run(const Call& call);

}  // namespace sparkpilot

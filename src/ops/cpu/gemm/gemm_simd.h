// Matrix products by the project's kernel: constant weights of f32, f16 or bf16; rows of f32, and 16-bit rows if no
// kernel computes faster in that type.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

// Whether C is one row of n elements.
bool is_vector(const Shape& c, int64_t n);
// Requirements of every kernel of rows times packed weights, whatever the types: B must be constant and a single
// matrix, the columns of A contiguous, alpha 1, and C, if present, a constant with one element per column.
Acceptance rows_accept(const Problem& p, const GemmArgs& args);
// Whether a step of the epilogue is an activation.
bool activates(const Epilogue& epilogue);
// beta * C, packed; marks it as consumed. Not present if there is no C.
Tensor pack_c(const Problem& p, const GemmArgs& args, uint64_t& consumed);

Acceptance gemm_simd_accepts(const Problem& p, const GemmArgs& args);
// Whether it was measured to be as fast as oneDNN on such a shape: all except plain products of very many rows.
bool gemm_simd_wins(const GemmArgs& args);
std::unique_ptr<KernelState> gemm_simd_prepare(const Problem& p, const GemmArgs& args);
void gemm_simd_run(const Call& call);

}  // namespace sparkpilot

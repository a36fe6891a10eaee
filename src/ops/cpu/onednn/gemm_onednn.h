// Matrix products by oneDNN.
#pragma once

#include "ops/cpu/gemm/matmul_shape.h"
#include "ops/cpu/onednn/onednn.h"

namespace sparkpilot {

// Y = alpha * A x B + beta * C with A and B the node's inputs 0 and 1.
struct GemmArgs {
  MatMulShape shape;
  int c = -1;  // index of the input that is added, broadcast to Y; -1: none
  float alpha = 1, beta = 1;
  Epilogue epilogue;  // only if the shape has no batch
};

// f32, and bf16 if the processor supports it. B may be stored in 16 bits if it is constant; it is then packed in
// `prepare`.
Acceptance gemm_onednn_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> gemm_onednn_prepare(const Problem& p, const GemmArgs& args);

}  // namespace sparkpilot

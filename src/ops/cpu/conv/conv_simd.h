// Convolution by the project's kernels: f32 images with channels last, constant weights of f32, f16 or bf16.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

Acceptance conv_simd_accepts(const Problem& p);
// Whether it was measured to be faster than oneDNN on such a shape (AVX-512, one core).
bool conv_simd_wins(const Problem& p);
std::unique_ptr<KernelState> conv_simd_prepare(const Problem& p);
void conv_simd_run(const Call& call);

// f32 of which the weights or the bias are known in a run only, as in training: they are packed in the workspace first.
Acceptance conv_packed_accepts(const Problem& p);
std::unique_ptr<KernelState> conv_packed_prepare(const Problem& p);
void conv_packed_run(const Call& call);

}  // namespace sparkpilot

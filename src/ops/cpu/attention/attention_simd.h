// Attention's vector kernel: f32, no past, and only the first output.
#pragma once

#include <memory>

#include "ir/op.h"

namespace sparkpilot {

Acceptance accepts_attention_simd(const Problem& p);
std::unique_ptr<KernelState> prepare_attention_simd(const Problem& p);
void run_attention_simd(const Call& c);

}  // namespace sparkpilot

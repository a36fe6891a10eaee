// Rounding of f32 to bf16 by the processor's own instruction.
#pragma once

#include "tensor/tensor.h"

namespace sparkpilot {

bool has_dot_round();
// Rounds to nearest even, as float_to_bfloat16() does, denormals included. Requires has_dot_round().
void dot_round(const float* x, BFloat16* y, int64_t n);

}  // namespace sparkpilot

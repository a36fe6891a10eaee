// Weights that 16 bits hold exactly, for files: those of a model that came in 16 bits.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// The first of f16 and bf16 that holds all numbers of a tensor of f32; f32 if neither does.
DType exact_type(const Tensor& tensor);
// Stores constants of f32 so, behind a Cast, but for small ones and those that say how others are scaled. Returns how
// many.
int store_exact_halves(Graph& graph);

}  // namespace sparkpilot

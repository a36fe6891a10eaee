// Attention on a GPU, for the ops Attention and sparkpilot::Attention: heads by strides, in f32, f16 and bf16, without
// a past. A mask of floats is read as it is; what constants decide (a mask that is constant, causality and windows of
// keys) is one mask of all queries and keys, made beforehand.
#pragma once

#include <span>

#include "ir/op.h"

namespace sparkpilot::cuda {

std::span<const Kernel> attention_candidates();

}  // namespace sparkpilot::cuda

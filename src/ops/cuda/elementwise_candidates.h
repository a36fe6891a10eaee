// Elementwise ops on a GPU: each op is a chain of few steps, chosen by the op's name.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

// For every op with the trait elementwise, also those without a function for it, which are refused by name.
extern const Kernel kElementwise[1];

}  // namespace sparkpilot::cuda

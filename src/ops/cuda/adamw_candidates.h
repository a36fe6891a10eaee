// The candidate of AdamW that runs on a GPU (adamw.h).
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

extern const Kernel kAdamW[1];

}  // namespace sparkpilot::cuda

// Whether a tensor holds NaN or infinity, fast enough to check before each run.
#pragma once

#include "tensor/tensor.h"

namespace sparkpilot {

// True for dtypes that have neither. Runs in parallel; allocates nothing.
bool all_finite(const ConstView& view);

}  // namespace sparkpilot

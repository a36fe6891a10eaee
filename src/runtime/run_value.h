// Values of a run as the model's file has them.
#pragma once

#include "sparkpilot/session.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// A copy of the value with the axes in the order of the file.
Tensor in_file_layout(const RunValue& value);

}  // namespace sparkpilot

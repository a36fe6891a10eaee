// QuantizeLinear and DequantizeLinear on a GPU: u8, i8 and E4M3 with one constant scale, and from E4M3 and E2M1 with
// any; DynamicQuantizeLinear.
#pragma once

#include "ir/op.h"

namespace sparkpilot::cuda {

extern const Kernel kQuantize[1], kDequantize[2], kDynamicQuantize[1];

}  // namespace sparkpilot::cuda

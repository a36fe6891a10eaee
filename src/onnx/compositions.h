// Expansions into older ops for ops that are newer than the opset to be written and have their own kernels. Private to
// the room.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// Null if the op has none.
ExpandFn find_composition(const OpDef& op);

}  // namespace sparkpilot

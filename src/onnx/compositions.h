// Ops that have kernels of their own and are newer than the opset to be written, as older ones. Private to the room.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// Null where the op has none.
ExpandFn find_composition(const OpDef& op);

}  // namespace sparkpilot

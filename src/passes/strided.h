// Selections that exporters spell as Reshape, Transpose, Reshape, Gather.
#pragma once

#include "passes/edit.h"

namespace sparkpilot {

// A Gather of one constant index, a Slice or a Split behind a chain of views and transposes, where the whole only picks
// elements at a stride from one value of the same rank, becomes one Slice of that value (the two halves of a channel
// shuffle). True where it changed something.
bool select_by_stride(Edit& edit, NodeId id);

}  // namespace sparkpilot

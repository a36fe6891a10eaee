// Recognises selections that exporters write as Reshape, Transpose, Reshape, Gather.
#pragma once

#include "passes/edit.h"

namespace sparkpilot {

// If a Gather of one constant index, a Slice or a Split, together with the chain of views and transposes before it,
// only picks elements at a stride from one value of the same rank, replaces it by one Slice of that value (such as the
// two halves of a channel shuffle). Returns whether it changed the graph.
bool select_by_stride(Edit& edit, NodeId id);

}  // namespace sparkpilot

// Which values of a plan may lie in the memory of others: for plans, and for what foresees their memory.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// Whether output 0 is its input 0 with another shape: no separate memory.
inline bool is_view(const OpDef& op, const TensorType& input, const TensorType& output) {
  return op.traits.view && input.dtype == output.dtype &&
         storage_bytes(input.dtype, input.shape.elements()) == storage_bytes(output.dtype, output.shape.elements());
}

// Whether output `output` of the node may use the memory of its input `input`, if nothing needs that afterwards and
// both have the same type.
inline bool may_overwrite(const Node& node, size_t output, size_t input) {
  if (!node.op->traits.in_place) return false;
  const int allowed = node.op->traits.in_place(node, static_cast<int>(output));
  return allowed == kAnyInput || allowed == static_cast<int>(input);
}

}  // namespace sparkpilot

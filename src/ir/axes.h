// How a node's outputs depend on its inputs, axis by axis.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// The source given by the op's record, or by its traits if the record gives none. `mixed` if a type is not known;
// `broadcast` for an absent input.
AxisSource axis_source(const OpDef& op, const Problem& problem, int output, int axis, size_t input);

// The source for an operand that broadcasts to an output by NumPy's rules, from their shapes: last axes are aligned.
AxisSource broadcast_axis(const Shape& operand, const Shape& output, int axis);
// The source for an output that is the input with another shape: the input's axis of the same size with the same number
// of elements before it.
AxisSource view_axis(const Shape& input, const Shape& output, int axis);

}  // namespace sparkpilot

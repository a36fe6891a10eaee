// How a node's outputs depend on its inputs, axis by axis.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// What the op's record says, or its traits. Mixed where a type is not known; broadcast of an absent input.
AxisSource axis_source(const OpDef& op, const Problem& problem, int output, int axis, size_t input);

// The same of an operand that broadcasts to an output as NumPy has it, by their shapes: the last axes go together.
AxisSource broadcast_axis(const Shape& operand, const Shape& output, int axis);
// Of another shape of the same elements: the input's axis of the same size with as many elements before it.
AxisSource view_axis(const Shape& input, const Shape& output, int axis);

}  // namespace sparkpilot

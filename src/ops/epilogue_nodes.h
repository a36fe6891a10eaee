// Checks an op's epilogue, and writes it as ONNX nodes.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

// Fails (user) if the node's epilogue does not fit its inputs and output.
void check_epilogue(const InferContext& c, const Shape& output, int64_t channels);

// Applies the node's epilogue to `y` with ONNX nodes. Operands are cast to y's dtype; `channel_axis` is y's channel
// axis.
ValueId add_epilogue_nodes(ExpandContext& e, ValueId y, int channel_axis);

// For an expansion into an op with an epilogue: gives it these steps of the node as an attribute, and appends what they
// name to its inputs.
void move_epilogue(const ExpandContext& e, std::vector<std::string> steps, std::vector<ValueId>& inputs,
                   Attributes& attrs);

// One step for each activation, for op cases.
std::vector<std::string> epilogue_steps();

// Casts `value` if it has another dtype.
ValueId cast_to(Builder& b, ValueId value, DType dtype);

}  // namespace sparkpilot

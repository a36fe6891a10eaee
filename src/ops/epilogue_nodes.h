// What the ops with an epilogue need of it outside their kernels: a check, and the epilogue as ONNX nodes.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

// Fails (user) where the node's epilogue does not fit its inputs and output.
void check_epilogue(const InferContext& c, const Shape& output, int64_t channels);

// `y` after the node's epilogue. Operands are cast to y's dtype; `channel_axis` is where y's channels lie.
ValueId add_epilogue_nodes(ExpandContext& e, ValueId y, int channel_axis);

// A step of each activation, for cases.
std::vector<std::string> epilogue_steps();

// `value`, cast where its dtype is another.
ValueId cast_to(Builder& b, ValueId value, DType dtype);

}  // namespace sparkpilot

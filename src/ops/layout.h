// Between the two layouts of images, for expansions of internal ops into ONNX's, which have channels first.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// A Transpose from N, spatial, C to N, C, spatial, and back.
ValueId channels_last_to_first(Builder& b, ValueId image);
ValueId channels_first_to_last(Builder& b, ValueId image);

// An internal op without operands of its own but `channels_last` as ONNX's op of that name between two Transposes.
std::vector<ValueId> expand_channels_last(ExpandContext& e);

}  // namespace sparkpilot

// Conversions between the two layouts of images, for expanding internal ops into ONNX ops, which have channels first.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// A Transpose from N, spatial, C to N, C, spatial, and back.
ValueId channels_last_to_first(Builder& b, ValueId image);
ValueId channels_first_to_last(Builder& b, ValueId image);

// Expands an internal op that differs from ONNX's op of the same name only by `channels_last` into that op between two
// Transposes.
std::vector<ValueId> expand_channels_last(ExpandContext& e);

}  // namespace sparkpilot

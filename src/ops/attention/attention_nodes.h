// Attention written as simpler nodes: what its gradient is made of.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// An ExpandFn of Attention, with all its outputs.
std::vector<ValueId> attention_as_nodes(ExpandContext& e);

}  // namespace sparkpilot

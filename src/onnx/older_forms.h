// Saying in an older opset what the newest form of an op says: operands that were attributes then. Private to the room.
#pragma once

#include "ir/graph.h"
#include "onnx/lower.h"

namespace sparkpilot {

// Whether the node has an attribute that came to its op after that opset, though the op is the same record.
bool has_newer_attribute(const Node& node, int opset);

// Replaces the node, which `opset` has no word for as it is, by an older form of it; false where there is none, or
// where it needs an operand's contents that are not constant. Whoever calls it applies the replacements.
bool write_older_form(Graph& graph, NodeId id, int opset, Replacements& replaced);

}  // namespace sparkpilot

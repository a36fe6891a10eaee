// Writes the newest form of an op in an older opset: operands that were attributes then. Private to the room.
#pragma once

#include "ir/graph.h"
#include "onnx/lower.h"

namespace sparkpilot {

// Replaces a node that `opset` cannot express by an older form of it; false if it has none, or if that needs an
// operand's contents that are not constant. The caller applies the replacements.
bool write_older_form(Graph& graph, NodeId id, int opset, Replacements& replaced);

// Counts negative axes from the front, as before opset 11, which infers the shapes that it needs. Where they are not
// known axes stay as they are if not `wanted`; else it fails (user).
void count_axes_from_the_front(Graph& graph, bool wanted);

}  // namespace sparkpilot

// What ONNX added to an op after the version that its record begins with: attributes and element types. Private to the
// room.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// Whether the node needs something that its op did not have in that opset: an attribute whose value is not the default,
// or an element type. Of ai.onnx's ops; bodies are not looked into.
bool needs_later_parts(const Graph& graph, const Node& node, int opset);

// Erases attributes that their ops did not have in that opset and whose values are the defaults, in bodies too.
void erase_later_defaults(Graph& graph, int opset);

}  // namespace sparkpilot

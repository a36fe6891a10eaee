// What ONNX added to an op after the version that its record begins with, or took from it: attributes and their values,
// operands, element types. From ONNX's operator schemas. Private to the room.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// Whether the node has something that its op did not have in that opset, a value of a default aside, or is an op that
// ONNX no longer had; and whether it has an element type that came later. Of ai.onnx's ops; bodies are not looked into.
bool needs_later_parts(const Graph& graph, const Node& node, int opset);
bool has_later_type(const Graph& graph, const Node& node, int opset);

// Leaves out attributes that their ops did not have in that opset and whose values are the defaults, or which it no
// longer had, and writes values as they were named then, in bodies too.
void spell_for(Graph& graph, int opset);

}  // namespace sparkpilot

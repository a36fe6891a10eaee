// Making a graph sayable in one opset of ONNX. Private to the room.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// Replaces internal ops by what they expand to, then finds the opset to write: `wanted` where it is not 0 (fails (user)
// where a node cannot be said in it), else the graph's own, else the newest up to kNewestExportOpset in which every
// node is the same op; where there is none, nodes of old opsets are expanded to the newest form too.
int lower_for_export(Graph& graph, int wanted);

}  // namespace sparkpilot

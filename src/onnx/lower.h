// Making a graph sayable in one opset of ONNX. Private to the room.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// Finds the opset to write and rewrites nodes that it has no word for, as older forms or as what they expand to:
// `wanted` where it is not 0 (fails (user) where a node cannot be said in it), else the graph's own where that can be,
// else the newest up to kNewestExportOpset in which every node is the same op, else kNewestExportOpset.
int lower_for_export(Graph& graph, int wanted);

}  // namespace sparkpilot

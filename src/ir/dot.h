// A graph as text for Graphviz.
#pragma once

#include <string>

#include "ir/graph.h"

namespace sparkpilot {

// One box per node (op, name, shape of its first output), ellipses for inputs, outputs and states, edges labelled with
// shapes. Constants are not drawn; a node's box has their number.
std::string to_dot(const Graph& graph);

}  // namespace sparkpilot

// A graph as text for Graphviz.
#pragma once

#include <string>

#include "ir/graph.h"

namespace sparkpilot {

// One box a node (op, name, shape of its first output), ellipses for inputs, outputs and states, edges labelled with
// shapes. Constants are left out but for the count of them in a node's box.
std::string to_dot(const Graph& graph);

}  // namespace sparkpilot

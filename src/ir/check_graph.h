// Checks that a graph is complete.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// Checks that every output and every state's next value is a value of the graph; that inputs, outputs and states have
// names, unique in each group; and the same for bodies, whose inputs and outputs need no names. Fails (user) naming
// what is wrong. For graphs built by hand; importers make complete ones.
void check_graph(const Graph& graph);

}  // namespace sparkpilot

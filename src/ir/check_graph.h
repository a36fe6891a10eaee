// Whether a graph is whole.
#pragma once

#include "ir/graph.h"

namespace sparkpilot {

// Every output and every state's next contents is a value; inputs, outputs and states have names, no two of a kind the
// same; bodies are whole too, whose inputs and outputs need no names. Fails (user) naming what is wrong. What an
// importer made is whole; what somebody built need not be.
void check_graph(const Graph& graph);

}  // namespace sparkpilot

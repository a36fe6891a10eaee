// Which constants of a network are its weights.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "train/program.h"

namespace sparkpilot::train {

// The f32 constants that products (convolutions, matrix products) and norms read, in the order of the nodes: for
// training all weights of a network. Named as in the file, else by the node that reads them first. Those with at most
// one axis longer than 1 (biases, gains) have no decay.
std::vector<Parameter> all_weights(const Graph& graph);

}  // namespace sparkpilot::train

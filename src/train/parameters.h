// Which constants of a network are its weights.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "train/program.h"

namespace sparkpilot::train {

// Weights of products are pulled to zero; those with at most one axis longer than 1 (biases, gains) are not.
bool decays(const Shape& shape);

// The f32 constants that products (convolutions, matrix products) and norms read, in the order of the nodes: for
// training all weights of a network. Named as in the file, else by the node that reads them first.
std::vector<Parameter> all_weights(const Graph& graph);

}  // namespace sparkpilot::train

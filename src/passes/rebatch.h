// Makes a model for batch size 1 run on a larger batch.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "passes/pass.h"

namespace sparkpilot {

// Returns `graph` with the first dimension of its inputs changed from 1 to `batch`; its outputs hold the results of
// that many runs, concatenated along their first axis. Inputs that have no dimension, or whose first one is not 1, are
// shared by all entries of the batch. Old op versions are expanded and constants folded; the other passes have not run.
//
// Values of several entries are stacked along one axis wherever the axis maps of their ops (ir/op.h) allow it; other
// nodes are repeated for each entry. So an entry's result is that of a separate run, except for the rounding of kernels
// that are chosen by shape.
//
// Shapes must be fixed. Fails (user) if the shape of an input is not, the graph has states or random nodes, a shape
// depends on data, an output has no dimension, or the graph would have more than a million nodes.
Graph rebatch(Graph graph, int64_t batch, const PassOptions& options = {});

}  // namespace sparkpilot

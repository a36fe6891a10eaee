// Models made for one entry of a batch, for several.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "passes/pass.h"

namespace sparkpilot {

// `graph` with inputs whose first dimension is `batch` where it was 1, and with outputs that hold the results of that
// many runs one after the other along their first axis. The other inputs, which have no dimension or no first one of 1,
// are the same for all entries. Old forms come out expanded and what is constant
// folded; the other passes have not run.
//
// Values of several entries are stacked along one axis wherever the axis maps of their ops (ir/op.h) allow it; a node
// that they do not is there once for each entry. So an entry's result is that of a run of its own, but for the rounding
// of kernels that are chosen by shape.
//
// Shapes must be fixed. Fails (user) where an input's are not, where the graph has states or random nodes, where a
// shape depends on data, where an output has no dimension, and where the graph would have more than a million nodes.
Graph rebatch(Graph graph, int64_t batch, const PassOptions& options = {});

}  // namespace sparkpilot

// Whether a graph may be run on a few entries of its batch at a time.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace sparkpilot {

// `whole` and `part` are one graph, optimised with its inputs' first axis bound to `batch` and to `count` entries.
// True where every entry of every output depends on the same entry of the inputs alone, and `part` computes for its
// entries exactly what `whole` does: the same nodes on the same constants. Neither may have states. What it does not
// understand it answers with false.
bool runs_in_parts(Graph& whole, const Graph& part, int64_t batch, int64_t count);

// Bytes that the node with the most of them reads and writes for one entry of the batch, constants aside.
int64_t bytes_of_an_entry(const Graph& whole, int64_t batch);

}  // namespace sparkpilot

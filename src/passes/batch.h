// Whether a graph may be run on a few entries of its batch at a time.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace sparkpilot {

// `whole` and `part` are the same graph, optimised with the first axis of its inputs bound to `batch` and to `count`.
// True if each entry of every output depends only on the same entry of the inputs, and `part` computes exactly what
// `whole` does for its entries: the same nodes on the same constants. Neither may have states. Returns false for
// anything it cannot analyse.
bool runs_in_parts(Graph& whole, const Graph& part, int64_t batch, int64_t count);

// The bytes that a node reads and writes for one entry of the batch, without constants: the maximum over all nodes.
int64_t bytes_of_an_entry(const Graph& whole, int64_t batch);

}  // namespace sparkpilot

// Gradients as nodes of the same graph.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// Adds nodes that compute the gradient of `loss` with respect to each of `wrt`, and returns its values in the order of
// `wrt`, each with the type and shape of what it belongs to (zeros where the loss does not depend on it). `loss` has
// one element; it and `wrt` are floats. All shapes must be known (infer()).
//
// A node's gradient is that of its op's record (OpDef::grad); an op without one is written as simpler nodes first
// (OpDef::expand), which replace the node in the graph. Nothing flows through values that are not floats. Gradients are
// computed in the type of the value that they belong to: widen a graph before it is differentiated. Nodes that nothing
// needs are left for compact().
//
// Fails (user) with op and node if a node that the gradient must pass has neither, or if a shape is not known.
std::vector<ValueId> differentiate(Graph& graph, ValueId loss, std::span<const ValueId> wrt);

}  // namespace sparkpilot

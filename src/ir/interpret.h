// The plain meaning of a graph: nodes one after the other through evaluate(), expansions and bodies included.
//
// Slow and simple; it is what constant folding uses on single nodes and what tests hold the runtime against.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace sparkpilot {

// Runs the whole graph on inputs in the order of graph.inputs(); returns outputs in the order of graph.outputs().
// `states`, where given, holds the states' contents in the order of graph.states(): read, then replaced.
// `kernel` names the candidate for every op that has it ("reference"); empty takes the first that accepts.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::vector<Tensor>* states = nullptr,
                              std::string_view kernel = {});

// The bodies of a node (If, Loop, Scan) made runnable by interpret(), in the order that kernels expect.
std::vector<std::unique_ptr<Body>> interpreted_bodies(const Node& node, std::string_view kernel = {});

// One node through its op's `expand`, which must be there, on inputs as in evaluate().
std::vector<Tensor> interpret_expansion(const Node& node, std::span<const Tensor> inputs, std::string_view kernel = {});

}  // namespace sparkpilot

// Interprets a graph: runs its nodes one after the other with evaluate(), including expansions and bodies.
//
// Slow and simple. Constant folding uses it for single nodes, and tests compare the runtime with it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace sparkpilot {

// Called with a node's results, which it may change before others read them.
using NodeWatch = std::function<void(NodeId, std::vector<Tensor>&)>;

// Runs the whole graph on inputs in the order of graph.inputs(); returns outputs in the order of graph.outputs().
// `states`, if given, holds the states' contents in the order of graph.states(): read, then replaced. `kernel` names
// the candidate to use for every op that has it ("reference"); empty: the first that accepts.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::vector<Tensor>* states = nullptr,
                              std::string_view kernel = {}, const NodeWatch& watch = {});

// The bodies of a node (If, Loop, Scan), to be run by interpret(); in the order that kernels expect.
std::vector<std::unique_ptr<Body>> interpreted_bodies(const Node& node, std::string_view kernel = {});

// Runs the expansion of a node, whose op must have one, on inputs as in evaluate().
std::vector<Tensor> interpret_expansion(const Node& node, std::span<const Tensor> inputs, std::string_view kernel = {});

}  // namespace sparkpilot

// Types and shapes of a whole graph, and evaluation of single nodes.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace sparkpilot {

// Infers one node from its inputs' types in the graph and writes its outputs' types. Returns true when every output's
// shape is known afterwards; false where an operand's contents are not known yet or the op is dynamic (dtypes are set
// where they can be); `missing`, where given, becomes the index of the operand whose contents are wanted, else -1.
// Fails (user) with op and node in the message.
bool infer_node(Graph& graph, NodeId node, int* missing = nullptr);

// infer_node over the graph in order. Values that depend on an unknown shape stay without one.
void infer(Graph& graph);

// Gives inputs their sizes: `shape` must fit what is declared. Fails (user) naming the input.
void bind_input(Graph& graph, ValueId input, const Shape& shape);

// Checks a node against its op's schema: arity, attributes known and of their types. Fails (user).
void check_schema(const Graph& graph, NodeId node);

// Runs one node on the CPU on given tensors (absent ones not present()), outside any plan: constant folding, tests.
// `kernel` picks a candidate by name; empty takes the one that a plan would. `bodies` are the node's, made runnable.
// Kernels see all inputs as constants, except those with a bit in `variable`.
std::vector<Tensor> evaluate(const Node& node, std::span<const Tensor> inputs, std::string_view kernel = {},
                             std::span<Body* const> bodies = {}, uint64_t variable = 0);

// FLOPs and bytes of a node whose types are known. An op without FLOPs, such as Gather, counts no more of an operand
// than of its outputs.
Cost cost_of(const OpDef& op, const Problem& problem);

}  // namespace sparkpilot

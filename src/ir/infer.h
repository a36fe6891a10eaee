// Types and shapes of a whole graph, and evaluation of single nodes.
#pragma once

#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace sparkpilot {

// Infers one node from its inputs' types in the graph and sets its outputs' types. Returns true if every output's shape
// is known afterwards; false if an operand's contents are not known yet or the op is dynamic (dtypes are set if they
// can be). `missing`, if given, becomes the index of the operand whose contents are needed, else -1. Fails (user) with
// op and node in the message.
bool infer_node(Graph& graph, NodeId node, int* missing = nullptr);

// Calls infer_node for all nodes in order. Values that depend on an unknown shape have none afterwards.
void infer(Graph& graph);

// Sets the shape of an input; it must fit the declared one. Fails (user) naming the input.
void bind_input(Graph& graph, ValueId input, const Shape& shape);

// Checks a node against its op's schema: number of inputs and outputs, names and types of attributes. Fails (user).
void check_schema(const Graph& graph, NodeId node);

// Runs one node on the CPU on given tensors (absent inputs are not present()), without a plan: for constant folding and
// tests. `kernel` selects a candidate by name; empty: the one that a plan would use. `bodies` run the node's bodies.
// Kernels see all inputs as constants, except those whose bit is set in `variable`.
std::vector<Tensor> evaluate(const Node& node, std::span<const Tensor> inputs, std::string_view kernel = {},
                             std::span<Body* const> bodies = {}, uint64_t variable = 0);

// FLOPs and bytes of a node whose types are known. For an op without FLOPs, such as Gather, an operand counts for at
// most as many bytes as the outputs.
Cost cost_of(const OpDef& op, const Problem& problem);

}  // namespace sparkpilot

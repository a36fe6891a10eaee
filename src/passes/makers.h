// Walks from values to what they are computed from.
#pragma once

#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// The operands of floats that are not constant.
inline std::vector<ValueId> computed_operands(const Graph& graph, NodeId id) {
  std::vector<ValueId> running;
  for (const ValueId input : graph.node(id).inputs) {
    if (input.present() && !graph.constant(input) && is_float(graph.value(input).dtype)) running.push_back(input);
  }
  return running;
}

// The nodes that make these values, and what those are computed from where `goes_on(id, computed float operands)`.
template <typename GoesOn>
void visit_makers(Edit& edit, std::vector<ValueId> work, const GoesOn& goes_on) {
  const Graph& graph = edit.graph();
  ValueMap<bool> seen(graph.value_count());
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    const NodeId id = edit.maker(value);
    if (!id.present() || seen[value]) continue;
    seen[value] = true;
    const std::vector<ValueId> running = computed_operands(graph, id);
    if (goes_on(id, running)) work.insert(work.end(), running.begin(), running.end());
  }
}

std::vector<ValueId> outputs_of(const Graph& graph);

// Heads: the products whose results reach a graph output through cheap ops with one computed operand, or with one that
// the others are computed from, as in x / |x|, so that a norm or a GELU is the same in parts as in one node.
NodeMap<bool> find_heads(Edit& edit);

}  // namespace sparkpilot

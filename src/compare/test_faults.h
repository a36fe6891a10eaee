// For tests: copies of networks with a fault in their weights.
#pragma once

#include <vector>

#include "ir/op.h"

namespace sparkpilot::compare {

// The convolutions and products of a graph whose second input is constant.
inline std::vector<NodeId> products(const Graph& graph) {
  std::vector<NodeId> found;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op->traits.product && node.inputs.size() > 1 && graph.constant(node.inputs[1])) found.push_back(id);
  }
  return found;
}

// Multiplies the weights of a node.
inline void scale_weights(Graph& graph, NodeId id, double factor) {
  Value& weights = graph.value(graph.node(id).inputs[1]);
  Tensor scaled = weights.constant.clone();
  for (int64_t i = 0; i < scaled.elements(); ++i) {
    store_element(scaled.dtype(), scaled.raw(), i, factor * load_element(scaled.dtype(), scaled.raw(), i));
  }
  weights.constant = scaled;
}

}  // namespace sparkpilot::compare

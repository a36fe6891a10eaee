#include "ir/census.h"

#include <algorithm>
#include <span>

#include "ir/infer.h"
#include "ir/launch.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

void count_nodes(const Graph& graph, Census& census) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    ++census.ops[qualified(*node.op)];
    ++census.nodes;
    for (const auto& [key, attribute] : node.attrs) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) count_nodes(**body, census);
    }
  }
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant(ValueId{i});
    if (!constant) continue;
    census.constant_bytes += constant->bytes();
    if (is_float(constant->dtype()) && constant->shape().rank() > 0) census.parameters += constant->elements();
  }
}

bool has_shapes(const Graph& graph, std::span<const ValueId> values) {
  return std::all_of(values.begin(), values.end(),
                     [&](ValueId id) { return !id.present() || graph.value(id).shape.has_value(); });
}

void count_work(const Graph& graph, NodeId id, Census& census) {
  const Node& node = graph.node(id);
  if (!has_shapes(graph, node.inputs) || !has_shapes(graph, node.outputs)) {
    ++census.unknown;
    return;
  }
  const double flops = cost_of(*node.op, NodeProblem(graph, id).problem()).flops;
  census.flops += flops;
  const Traits& traits = node.op->traits;
  if (traits.product || traits.multiply_adds || traits.attention) census.macs += flops / 2;  // but for the bias
}

}  // namespace

Census take_census(const Graph& graph) {
  Census census;
  count_nodes(graph, census);
  for (const NodeId id : graph.order()) count_work(graph, id, census);
  return census;
}

}  // namespace sparkpilot

#include "ir/census.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "ir/infer.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

// The ops that multiply matrices. Their FLOPs are multiply-adds up to the bias.
constexpr std::string_view kProducts[] = {
    "Conv",          "ConvTranspose", "DeformConv", "ConvInteger", "QLinearConv", "Gemm", "MatMul",
    "MatMulInteger", "QLinearMatMul", "Einsum",     "Attention",   "LSTM",        "GRU",  "RNN"};

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

// The types of values; false where one is not known.
bool types_of(const Graph& graph, std::span<const ValueId> values, std::vector<TensorType>& types) {
  for (const ValueId id : values) {
    if (!id.present()) {
      types.emplace_back();
      continue;
    }
    const Value& value = graph.value(id);
    if (!value.shape) return false;
    types.push_back({value.dtype, *value.shape, true});
  }
  return true;
}

void count_work(const Graph& graph, const Node& node, Census& census) {
  std::vector<TensorType> inputs, outputs;
  if (!types_of(graph, node.inputs, inputs) || !types_of(graph, node.outputs, outputs)) {
    ++census.unknown;
    return;
  }
  std::vector<Tensor> constants;
  for (const ValueId id : node.inputs) {
    const Tensor* constant = id.present() ? graph.constant(id) : nullptr;
    constants.push_back(constant ? *constant : Tensor());
  }
  const Problem problem{.node = &node, .inputs = inputs, .outputs = outputs, .constants = constants};
  const double flops = cost_of(*node.op, problem).flops;
  census.flops += flops;
  if (std::count(std::begin(kProducts), std::end(kProducts), node.op->name)) census.macs += flops / 2;
}

}  // namespace

Census take_census(const Graph& graph) {
  Census census;
  count_nodes(graph, census);
  for (const NodeId id : graph.order()) count_work(graph, graph.node(id), census);
  return census;
}

}  // namespace sparkpilot

// Replaces an If whose condition is known by the branch that runs, so that the plan need not end there.
#include <map>

#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

// The branch that runs; null if that is not known yet, or if the branch cannot be inlined.
std::shared_ptr<const Graph> chosen_branch(const Graph& graph, const Node& node) {
  if (!is_op(node, "If")) return nullptr;
  const Tensor* condition = graph.constant(node.inputs[0]);
  if (!condition || condition->dtype() != DType::boolean || condition->elements() != 1) return nullptr;
  const bool yes = load_element(DType::boolean, condition->raw(), 0) != 0;
  const auto& branch = node.attrs.graph(yes ? "then_branch" : "else_branch");
  const bool fits = branch->states().empty() && branch->inputs().size() + 1 == node.inputs.size() &&
                    branch->outputs().size() >= node.outputs.size();
  return fits ? branch : nullptr;
}

// Adds the body's nodes and constants to the graph; returns the values of its outputs.
std::vector<ValueId> write_out(Graph& graph, const Graph& body, std::span<const ValueId> arguments,
                               const std::string& prefix) {
  std::map<ValueId, ValueId> at;
  for (size_t i = 0; i < arguments.size(); ++i) at[body.inputs()[i]] = arguments[i];
  const auto here = [&](ValueId v) {
    if (!v.present()) return v;
    const auto [found, fresh] = at.emplace(v, ValueId{});
    if (fresh) found->second = graph.add_constant(*body.constant(v), body.value(v).name);
    return found->second;
  };
  for (const NodeId id : body.order()) {
    const Node& node = body.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) inputs.push_back(here(v));
    const NodeId copy = graph.add_node(*node.op, std::move(inputs), node.attrs, static_cast<int>(node.outputs.size()),
                                       prefix + "/" + body.label(id));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      at[node.outputs[i]] = graph.node(copy).outputs[i];
      graph.value(graph.node(copy).outputs[i]).name = body.value(node.outputs[i]).name;
    }
  }
  std::vector<ValueId> results;
  for (const Graph::Output& output : body.outputs()) results.push_back(here(output.value));
  return results;
}

}  // namespace

bool inline_branch(Edit& edit, NodeId id) {
  Graph& graph = edit.graph();
  if (!is_op(graph.node(id), "If")) return false;
  const Node node = graph.node(id);
  const std::shared_ptr<const Graph> branch = chosen_branch(graph, node);
  if (!branch) return false;
  const std::span<const ValueId> arguments = std::span(node.inputs).subspan(1);
  const std::vector<ValueId> results = write_out(graph, *branch, arguments, graph.label(id));
  for (size_t i = 0; i < node.outputs.size(); ++i) edit.replace(node.outputs[i], results[i]);
  edit.erase_if_dead(id);
  return true;
}

}  // namespace sparkpilot

#include "ir/interpret.h"

#include "base/error.h"
#include "ir/id_map.h"
#include "ir/infer.h"

namespace sparkpilot {
namespace {

class InterpretedBody final : public Body {
 public:
  InterpretedBody(std::shared_ptr<const Graph> graph, std::string_view kernel)
      : graph_(std::move(graph)), kernel_(kernel) {}
  std::vector<Tensor> run(std::vector<Tensor> inputs) override { return interpret(*graph_, inputs, nullptr, kernel_); }

 private:
  std::shared_ptr<const Graph> graph_;
  std::string_view kernel_;
};

}  // namespace

std::vector<Tensor> interpret_expansion(const Node& node, std::span<const Tensor> inputs, std::string_view kernel) {
  // The expansion is built in a small graph with the inputs as constants, so that it sees their shapes and contents.
  Graph graph;
  Node local = node;
  local.inputs.clear();
  for (const Tensor& tensor : inputs) {
    local.inputs.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
  }
  Builder builder(graph, node.name);
  ExpandContext context{builder, local};
  std::vector<ValueId> outputs = node.op->expand(context);
  for (const ValueId output : outputs) {
    if (output.present()) graph.add_output(output, "");
  }
  std::vector<Tensor> states;
  for (const State& state : graph.states()) states.push_back(graph.value(state.value).constant);
  std::vector<Tensor> results = interpret(graph, {}, &states, kernel);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].present()) results.insert(results.begin() + static_cast<std::ptrdiff_t>(i), Tensor());
  }
  return results;
}

std::vector<std::unique_ptr<Body>> interpreted_bodies(const Node& node, std::string_view kernel) {
  std::vector<std::unique_ptr<Body>> bodies;
  for (const auto& [key, attribute] : node.attrs) {
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute)) {
      bodies.push_back(std::make_unique<InterpretedBody>(*body, kernel));
    }
  }
  return bodies;
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs, std::vector<Tensor>* states,
                              std::string_view kernel, const NodeWatch& watch) {
  if (inputs.size() != graph.inputs().size()) {
    fail("{} inputs given, the graph has {}", inputs.size(), graph.inputs().size());
  }
  ValueMap<Tensor> slot(graph.value_count());
  for (int i = 0; i < graph.value_count(); ++i) slot[ValueId{i}] = graph.value(ValueId{i}).constant;
  for (size_t i = 0; i < inputs.size(); ++i) slot[graph.inputs()[i]] = inputs[i];
  if (states) {
    for (size_t i = 0; i < states->size(); ++i) slot[graph.states()[i].value] = (*states)[i];
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<Tensor> arguments;
    for (const ValueId input : node.inputs) arguments.push_back(input.present() ? slot[input] : Tensor());
    std::vector<Tensor> results;
    if (node.op->cpu.empty() && node.op->expand) {
      results = interpret_expansion(node, arguments, kernel);
    } else {
      const std::vector<std::unique_ptr<Body>> owned = interpreted_bodies(node, kernel);
      std::vector<Body*> bodies;
      for (const auto& body : owned) bodies.push_back(body.get());
      bool named = false;
      for (const Kernel& candidate : node.op->cpu) named |= candidate.name == kernel;
      results = evaluate(node, arguments, named ? kernel : std::string_view{}, bodies);
    }
    if (watch) watch(id, results);
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) slot[node.outputs[i]] = results[i];
  }
  std::vector<Tensor> outputs;
  for (const Graph::Output& output : graph.outputs()) outputs.push_back(slot[output.value]);
  if (states) {
    std::vector<Tensor> next;
    for (const State& state : graph.states()) next.push_back(slot[state.next]);
    *states = std::move(next);
  }
  return outputs;
}

}  // namespace sparkpilot

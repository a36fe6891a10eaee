#include "ir/check_graph.h"

#include <unordered_set>

#include "base/error.h"

namespace sparkpilot {
namespace {

void check_values(const Graph& graph, bool body) {
  const auto exists = [&](ValueId id) { return id.present() && id.index < graph.value_count(); };
  for (const Graph::Output& output : graph.outputs()) {
    if (!exists(output.value)) fail("output \"{}\" has no value", output.name);
  }
  for (const State& state : graph.states()) {
    const std::string& name = graph.value(state.value).name;
    if (!exists(state.next)) fail("state \"{}\" has no value for the next run", name);
  }
  if (body) return;
  if (graph.outputs().empty() && graph.states().empty()) fail("the graph has neither outputs nor states");
  std::unordered_set<std::string_view> inputs, outputs, states;
  for (const ValueId id : graph.inputs()) {
    const Value& input = graph.value(id);
    if (input.name.empty()) fail("input {} has no name", inputs.size());
    if (!inputs.insert(input.name).second) fail("two inputs are named \"{}\"", input.name);
    if (input.dtype == DType::none) fail("input \"{}\" has no element type", input.name);
  }
  for (const Graph::Output& output : graph.outputs()) {
    if (output.name.empty()) fail("output {} has no name", outputs.size());
    if (!outputs.insert(output.name).second) fail("two outputs are named \"{}\"", output.name);
  }
  for (const State& state : graph.states()) {
    const std::string& name = graph.value(state.value).name;
    if (!name.empty() && !states.insert(name).second) fail("two states are named \"{}\"", name);
  }
}

}  // namespace

void check_graph(const Graph& graph) {
  std::vector<const Graph*> work{&graph};
  for (size_t at = 0; at < work.size(); ++at) {
    check_values(*work[at], at > 0);
    for (int i = 0; i < work[at]->node_count(); ++i) {
      for (const auto& [key, attribute] : work[at]->node(NodeId{i}).attrs) {
        const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
        if (body && !*body) fail("attribute {} holds no graph (node \"{}\")", key, work[at]->label(NodeId{i}));
        if (body) work.push_back(body->get());
      }
    }
  }
}

}  // namespace sparkpilot

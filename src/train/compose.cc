#include "train/compose.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace sparkpilot::train {

ValueMap<ValueId> append_graph(Graph& into, const Graph& part, const std::map<std::string, ValueId>& inputs) {
  ValueMap<ValueId> became(part.value_count());
  for (const ValueId id : part.inputs()) {
    const Value& wanted = part.value(id);
    const auto found = inputs.find(wanted.name);
    if (found == inputs.end()) fail("nothing is given for the input \"{}\"", wanted.name);
    const Value& given = into.value(found->second);
    if (given.dtype != wanted.dtype || given.shape != wanted.shape) {
      fail("the input \"{}\" is {}{}, it is given {}{}", wanted.name, name(wanted.dtype),
           wanted.shape ? wanted.shape->str() : "[?]", name(given.dtype), given.shape ? given.shape->str() : "[?]");
    }
    became[id] = found->second;
  }
  for (const State& state : part.states()) {
    const Value& v = part.value(state.value);
    became[state.value] = into.add_state(v.constant, v.name, state.resettable);
  }
  const auto constant = [&](ValueId id) {
    const Value& v = part.value(id);
    if (v.kind == ValueKind::constant && !became[id].present()) became[id] = into.add_constant(v.constant, v.name);
  };
  for (const Graph::Output& output : part.outputs()) constant(output.value);
  for (const State& state : part.states()) constant(state.next);
  for (const NodeId id : part.order()) {
    const Node& node = part.node(id);
    std::vector<ValueId> from;
    for (const ValueId input : node.inputs) {
      if (input.present()) constant(input);
      from.push_back(input.present() ? became[input] : ValueId{});
    }
    const NodeId made =
        into.add_node(*node.op, std::move(from), node.attrs, static_cast<int>(node.outputs.size()), node.name);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId to = into.node(made).outputs[o];
      const Value& was = part.value(node.outputs[o]);
      into.value(to).name = was.name;
      into.value(to).dtype = was.dtype;
      into.value(to).shape = was.shape;
      became[node.outputs[o]] = to;
    }
  }
  for (const State& state : part.states()) into.set_next(became[state.value], became[state.next]);
  return became;
}

}  // namespace sparkpilot::train

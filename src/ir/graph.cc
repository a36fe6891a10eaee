#include "ir/graph.h"

#include <algorithm>

#include "base/error.h"
#include "ir/id_map.h"
#include "ir/op.h"

namespace sparkpilot {

ValueId Graph::add_input(std::string name, DType dtype, std::vector<Dim> dims) {
  const ValueId id{value_count()};
  Value value{.name = std::move(name), .kind = ValueKind::input, .dtype = dtype};
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size);
  if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 0; })) {
    value.shape = Shape(std::span<const int64_t>(sizes));
  }
  value.declared = std::move(dims);
  values_.push_back(std::move(value));
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_input(std::string name, DType dtype, const Shape& shape) {
  std::vector<Dim> dims;
  for (const int64_t size : shape) dims.push_back({size, {}});
  return add_input(std::move(name), dtype, std::move(dims));
}

ValueId Graph::add_constant(Tensor tensor, std::string name) {
  const ValueId id{value_count()};
  Value value{.name = std::move(name), .kind = ValueKind::constant, .dtype = tensor.dtype(), .shape = tensor.shape()};
  value.constant = std::move(tensor);
  values_.push_back(std::move(value));
  return id;
}

ValueId Graph::add_state(Tensor initial, std::string name, bool resettable) {
  const auto taken = [&](const std::string& wanted) {
    return std::any_of(states_.begin(), states_.end(), [&](const State& s) { return value(s.value).name == wanted; });
  };
  if (name.empty()) {
    size_t i = states_.size();
    do name = "state" + std::to_string(i++);
    while (taken(name));
  } else if (taken(name)) {
    fail_internal("two states are named \"{}\"", name);
  }
  const ValueId id = add_constant(std::move(initial), std::move(name));
  value(id).kind = ValueKind::state;
  states_.push_back({id, ValueId{}, resettable});
  return id;
}

void Graph::set_next(ValueId state, ValueId next) {
  // States are sorted by their values, in the order in which they were added.
  const auto at =
      std::lower_bound(states_.begin(), states_.end(), state, [](const State& s, ValueId id) { return s.value < id; });
  if (at == states_.end() || at->value != state) fail_internal("value {} is no state", state.index);
  at->next = next;
}

NodeId Graph::add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attrs, int outputs, std::string name) {
  const NodeId id{node_count()};
  for (const ValueId input : inputs) {
    if (input.index >= value_count()) fail_internal("node {} reads value {} of {}", name, input.index, value_count());
  }
  Node node{.op = &op, .name = std::move(name), .inputs = std::move(inputs), .outputs = {}, .attrs = std::move(attrs)};
  for (int i = 0; i < outputs; ++i) {
    node.outputs.push_back(ValueId{value_count()});
    Value value;
    value.producer = id;
    values_.push_back(std::move(value));
  }
  nodes_.push_back(std::move(node));
  return id;
}

void Graph::add_output(ValueId value, std::string name) { outputs_.push_back({value, std::move(name)}); }

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes_) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  for (Output& output : outputs_) {
    if (output.value == from) output.value = to;
  }
  for (State& state : states_) {
    if (state.next == from) state.next = to;
  }
}

void Graph::erase(NodeId id) {
  Node& gone = node(id);
  gone.op = nullptr;
  gone.inputs.clear();
  gone.attrs = {};
}

const Tensor* Graph::constant(ValueId id) const {
  if (!id.present() || value(id).kind != ValueKind::constant) return nullptr;
  return &value(id).constant;
}

ValueId Graph::find_input(std::string_view name) const {
  for (const ValueId id : inputs_) {
    if (value(id).name == name) return id;
  }
  return {};
}

std::vector<NodeId> Graph::order() const {
  // Depth first with an explicit stack, since graphs from files may be too deep for recursion.
  enum : uint8_t { fresh, open, done };
  std::vector<uint8_t> mark(nodes_.size(), fresh);
  std::vector<NodeId> out;
  out.reserve(nodes_.size());
  std::vector<std::pair<int32_t, size_t>> stack;
  for (int32_t root = 0; root < node_count(); ++root) {
    if (erased(NodeId{root}) || mark[static_cast<size_t>(root)] != fresh) continue;
    stack.emplace_back(root, 0);
    mark[static_cast<size_t>(root)] = open;
    while (!stack.empty()) {
      const auto [at, next_input] = stack.back();
      const Node& node = nodes_[static_cast<size_t>(at)];
      if (next_input == node.inputs.size()) {
        mark[static_cast<size_t>(at)] = done;
        out.push_back(NodeId{at});
        stack.pop_back();
        continue;
      }
      ++stack.back().second;
      const ValueId input = node.inputs[next_input];
      if (!input.present()) continue;
      const NodeId producer = value(input).producer;
      if (!producer.present()) continue;
      uint8_t& state = mark[static_cast<size_t>(producer.index)];
      if (state == open) fail("the graph has a cycle through node \"{}\"", label(producer));
      if (state == done) continue;
      state = open;
      stack.emplace_back(producer.index, 0);
    }
  }
  return out;
}

std::vector<std::vector<NodeId>> Graph::uses() const {
  std::vector<std::vector<NodeId>> out(values_.size());
  for (int32_t i = 0; i < node_count(); ++i) {
    for (const ValueId input : nodes_[static_cast<size_t>(i)].inputs) {
      if (input.present()) out[static_cast<size_t>(input.index)].push_back(NodeId{i});
    }
  }
  return out;
}

std::string Graph::label(NodeId id) const {
  const Node& n = node(id);
  if (!n.name.empty()) return n.name;
  return fmt::format("{}#{}", n.op ? n.op->name : "erased", id.index);
}

void Graph::compact() {
  ValueMap<bool> value_live(value_count());
  NodeMap<bool> node_live(node_count());
  std::vector<ValueId> work;
  const auto need = [&](ValueId id) {
    if (id.present() && !value_live[id]) {
      value_live[id] = true;
      work.push_back(id);
    }
  };
  for (const Output& output : outputs_) need(output.value);
  for (const ValueId input : inputs_) need(input);
  // States are results of a run too: an update may have no output at all.
  for (const State& state : states_) {
    need(state.value);
    need(state.next);
  }
  while (!work.empty()) {
    const ValueId id = work.back();
    work.pop_back();
    const Value& v = value(id);
    if (!v.producer.present() || node_live[v.producer]) continue;
    node_live[v.producer] = true;
    for (const ValueId input : node(v.producer).inputs) need(input);
    for (const ValueId output : node(v.producer).outputs) value_live[output] = true;
  }
  ValueMap<ValueId> value_map(value_count());
  NodeMap<NodeId> node_map(node_count());
  std::vector<Node> nodes;
  std::vector<Value> values;
  for (size_t i = 0; i < values_.size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    if (!value_live[id]) continue;
    value_map[id] = ValueId{static_cast<int32_t>(values.size())};
    values.push_back(std::move(values_[i]));
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeId id{static_cast<int32_t>(i)};
    if (!node_live[id] || !nodes_[i].op) continue;
    node_map[id] = NodeId{static_cast<int32_t>(nodes.size())};
    nodes.push_back(std::move(nodes_[i]));
  }
  const auto moved = [&](ValueId& id) {
    if (id.present()) id = value_map[id];
  };
  for (Node& node : nodes) {
    for (ValueId& id : node.inputs) moved(id);
    for (ValueId& id : node.outputs) moved(id);
  }
  for (Value& v : values) {
    if (v.producer.present()) v.producer = node_map[v.producer];
  }
  for (ValueId& id : inputs_) moved(id);
  for (Output& output : outputs_) moved(output.value);
  for (State& state : states_) {
    moved(state.value);
    moved(state.next);
  }
  values_ = std::move(values);
  nodes_ = std::move(nodes);
}

}  // namespace sparkpilot

#include "passes/edit.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ir/infer.h"

namespace sparkpilot {
namespace {
constexpr int kNewestOpset = 26;  // version of the ops that passes write, as in Builder
}

Edit::Edit(Graph& graph) : graph_(graph) {
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    outside_[graph.outputs()[i].value.index].outputs.push_back(static_cast<int>(i));
  }
  for (const State& state : graph.states()) {
    if (state.next.present()) outside_[state.next.index].states.push_back(state.value);
  }
  sync();
}

void Edit::sync() {
  if (reads_.size() < graph_.value_count()) reads_.resize(graph_.value_count());
  if (indexed_ == graph_.node_count()) return;
  for (; indexed_ < graph_.node_count(); ++indexed_) {
    const std::vector<ValueId>& inputs = graph_.node(NodeId{indexed_}).inputs;
    first_place_.add(places_.size());
    places_.resize(places_.size() + inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].present()) add_read(inputs[i], NodeId{indexed_}, i);
    }
  }
}

void Edit::add_read(ValueId value, NodeId node, size_t input) {
  Reads& reads = reads_of(value);
  place(node, input) = static_cast<uint32_t>(reads.nodes.size());
  reads.nodes.push_back(node);
  reads.inputs.push_back(static_cast<uint32_t>(input));
}

// Removes the read. The order is kept if there are only a few reads; else the last one takes its place.
void Edit::remove_read(ValueId value, NodeId node, size_t input) {
  constexpr size_t kFew = 64;
  Reads& reads = reads_of(value);
  const size_t at = place(node, input);
  if (reads.nodes.size() <= kFew) {
    reads.nodes.erase(reads.nodes.begin() + static_cast<std::ptrdiff_t>(at));
    reads.inputs.erase(reads.inputs.begin() + static_cast<std::ptrdiff_t>(at));
    for (size_t i = at; i < reads.nodes.size(); ++i) place(reads.nodes[i], reads.inputs[i]) = static_cast<uint32_t>(i);
    return;
  }
  reads.nodes[at] = reads.nodes.back();
  reads.inputs[at] = reads.inputs.back();
  place(reads.nodes[at], reads.inputs[at]) = static_cast<uint32_t>(at);
  reads.nodes.pop_back();
  reads.inputs.pop_back();
}

const std::vector<NodeId>& Edit::readers(ValueId value) {
  sync();
  return reads_of(value).nodes;
}

bool Edit::leaves_graph(ValueId value) { return outside_.contains(value.index); }

NodeId Edit::only_reader(ValueId value) {
  const std::vector<NodeId>& all = readers(value);
  if (all.empty() || leaves_graph(value)) return {};
  const bool one = std::all_of(all.begin(), all.end(), [&](NodeId id) { return id == all.front(); });
  return one ? all.front() : NodeId{};
}

void Edit::replace(ValueId from, ValueId to) {
  if (from == to) return;
  sync();
  const Reads moved = std::exchange(reads_of(from), {});
  for (size_t i = 0; i < moved.nodes.size(); ++i) {
    graph_.node(moved.nodes[i]).inputs[moved.inputs[i]] = to;
    add_read(to, moved.nodes[i], moved.inputs[i]);
  }
  if (const auto found = outside_.find(from.index); found != outside_.end()) {
    const Outside uses = std::move(found->second);
    outside_.erase(found);
    Outside& now = outside_[to.index];
    for (const int output : uses.outputs) graph_.set_output(output, to);
    for (const ValueId state : uses.states) graph_.set_next(state, to);
    now.outputs.insert(now.outputs.end(), uses.outputs.begin(), uses.outputs.end());
    now.states.insert(now.states.end(), uses.states.begin(), uses.states.end());
  }
  Value& target = graph_.value(to);
  if (const Value& source = graph_.value(from); target.name.empty()) {
    target.name = source.name;
    target.channels_last = source.channels_last;
  }
  if (const NodeId producer = graph_.value(from).producer; producer.present()) erase_if_dead(producer);
}

void Edit::set_input(NodeId id, size_t input, ValueId value) {
  sync();
  ValueId& slot = graph_.node(id).inputs[input];
  if (slot == value) return;
  const ValueId before = slot;
  if (before.present()) remove_read(before, id, input);
  slot = value;
  if (value.present()) add_read(value, id, input);
  if (!before.present()) return;
  if (const NodeId producer = graph_.value(before).producer; producer.present()) erase_if_dead(producer);
}

void Edit::erase_if_dead(NodeId root) {
  sync();
  std::vector<NodeId> work{root};
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    if (graph_.erased(id)) continue;
    const auto& outputs = graph_.node(id).outputs;
    const bool dead = std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      return reads_of(output).nodes.empty() && !leaves_graph(output);
    });
    if (!dead) continue;
    const std::vector<ValueId>& inputs = graph_.node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].present()) continue;
      remove_read(inputs[i], id, i);
      if (const NodeId producer = graph_.value(inputs[i]).producer; producer.present()) work.push_back(producer);
    }
    graph_.erase(id);
  }
}

ValueId Edit::make(NodeId like, std::string_view op, std::vector<ValueId> inputs, Attributes attrs) {
  const size_t colon = op.find("::");
  const std::string_view domain = colon == std::string_view::npos ? "" : op.substr(0, colon);
  const OpDef* def = find_op(domain, domain.empty() ? op : op.substr(colon + 2), kNewestOpset);
  if (!def) fail_internal("a pass asked for unknown op {}", op);
  return add(*def, graph_.node(like).name, std::move(inputs), std::move(attrs));
}

ValueId Edit::remake(NodeId node, std::vector<ValueId> inputs, Attributes attrs) {
  const Node& like = graph_.node(node);
  return add(*like.op, like.name, std::move(inputs), std::move(attrs));
}

ValueId Edit::add(const OpDef& op, std::string name, std::vector<ValueId> inputs, Attributes attrs) {
  const bool known = std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) { return !v.present() || constant(v); });
  while (!inputs.empty() && !inputs.back().present()) inputs.pop_back();
  const NodeId id = graph_.add_node(op, std::move(inputs), std::move(attrs), 1, std::move(name));
  check_schema(graph_, id);
  infer_node(graph_, id);
  if (!known) return node(id).outputs[0];
  std::vector<Tensor> operands;
  for (const ValueId input : node(id).inputs) operands.push_back(input.present() ? *constant(input) : Tensor());
  const ValueId folded = graph_.add_constant(evaluate(node(id), operands)[0]);
  erase_if_dead(id);
  return folded;
}

ValueId Edit::reshape(NodeId like, ValueId value, Shape to) {
  if (shape(value) == to) return value;
  while (maker(value).present()) {
    const Node& view = node(maker(value));
    if (!view.op->traits.view || view.outputs.size() != 1 || !known(view.inputs[0])) break;
    if (dtype(view.inputs[0]) != dtype(value)) break;
    value = view.inputs[0];
  }
  if (shape(value) == to) return value;
  if (const Tensor* tensor = constant(value)) return graph_.add_constant(tensor->reshaped(to));
  const Attributes attrs = to.elements() == 0 ? Attributes{{"allowzero", int64_t{1}}} : Attributes{};
  return make(like, "Reshape", {value, graph_.add_constant(Tensor::ints(to.dims()))}, attrs);
}

ValueId Edit::transpose(NodeId like, ValueId value, std::span<const int> permutation) {
  std::vector<int> perm(permutation.begin(), permutation.end());
  for (NodeId before; (before = maker(value, "Transpose")).present();) {
    const std::vector<int> first = permutation_of(node(before), static_cast<int>(perm.size()));
    for (int& axis : perm) axis = first[static_cast<size_t>(axis)];
    value = node(before).inputs[0];
  }
  if (std::is_sorted(perm.begin(), perm.end())) return value;
  if (!moves_data(shape(value), perm)) return reshape(like, value, permuted(shape(value), perm));
  return make(like, "Transpose", {value}, {{"perm", std::vector<int64_t>(perm.begin(), perm.end())}});
}

std::optional<double> Edit::scalar(ValueId value) const {
  const Tensor* tensor = constant(value);
  if (!tensor || tensor->elements() != 1) return {};
  return load_element(tensor->dtype(), tensor->raw(), 0);
}

NodeId Edit::maker(ValueId value) const { return value.present() ? graph_.value(value).producer : NodeId{}; }

NodeId Edit::maker(ValueId value, std::string_view op) const {
  const NodeId id = maker(value);
  return id.present() && is_op(graph_.node(id), op) ? id : NodeId{};
}

Shape permuted(const Shape& shape, std::span<const int> permutation) {
  std::vector<int64_t> dims;
  for (const int axis : permutation) dims.push_back(shape[axis]);
  return Shape(std::span<const int64_t>(dims));
}

bool moves_data(const Shape& shape, std::span<const int> permutation) {
  int last = -1;
  for (const int axis : permutation) {
    if (shape[axis] == 1) continue;
    if (axis < last) return true;
    last = axis;
  }
  return false;
}

std::vector<int> permutation_of(const Node& node, int rank) {
  std::vector<int> perm;
  for (const int64_t axis : node.attrs.integers("perm")) perm.push_back(normalize_axis(axis, rank));
  if (perm.empty()) {
    for (int axis = rank - 1; axis >= 0; --axis) perm.push_back(axis);
  }
  return perm;
}

bool is_op(const Node& node, std::string_view op) {
  if (!node.op) return false;
  const size_t colon = op.find("::");
  if (colon == std::string_view::npos) return node.op->domain.empty() && node.op->name == op;
  return node.op->domain == op.substr(0, colon) && node.op->name == op.substr(colon + 2);
}

bool is_one_of(const Node& node, std::span<const std::string_view> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return is_op(node, op); });
}

std::optional<std::vector<int64_t>> ints_of(const Graph& graph, const Node& node, size_t input,
                                            std::string_view attribute) {
  if (input < node.inputs.size() && node.inputs[input].present()) {
    const Tensor* tensor = graph.constant(node.inputs[input]);
    if (!tensor) return {};
    return tensor->to_ints();
  }
  if (!attribute.empty() && node.attrs.has(attribute)) return node.attrs.integers(attribute);
  return {};
}

std::optional<std::vector<int>> reduced_axes(const Graph& graph, const Node& node) {
  const std::optional<Shape>& shape = graph.value(node.inputs[0]).shape;
  if (!shape) return {};
  const bool given = (node.inputs.size() > 1 && node.inputs[1].present()) || node.attrs.has("axes");
  std::vector<int> axes;
  if (given) {
    const auto listed = ints_of(graph, node, 1, "axes");
    if (!listed) return {};
    for (const int64_t axis : *listed) axes.push_back(normalize_axis(axis, shape->rank()));
    std::sort(axes.begin(), axes.end());
  }
  if (axes.empty() && node.attrs.integer("noop_with_empty_axes", 0) == 0) {
    for (int i = 0; i < shape->rank(); ++i) axes.push_back(i);
  }
  return axes;
}

const Node* Region::take(ValueId value, std::string_view op) {
  const NodeId id = edit_.maker(value, op);
  if (!id.present()) return nullptr;
  nodes_.push_back(id);
  return &edit_.node(id);
}

bool Region::holds(NodeId node) const { return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end(); }

bool Region::closed(ValueId result) const {
  for (const NodeId id : nodes_) {
    for (const ValueId output : edit_.node(id).outputs) {
      if (output == result) continue;
      if (edit_.leaves_graph(output)) return false;
      const std::vector<NodeId>& readers = edit_.readers(output);
      if (!std::all_of(readers.begin(), readers.end(), [&](NodeId reader) { return holds(reader); })) return false;
    }
  }
  return true;
}

}  // namespace sparkpilot

// The passes that every graph needs: expansion, constant folding, common subexpressions, dead code.
#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "ir/infer.h"
#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

constexpr int64_t kAlwaysFold = 4096;  // bytes: shape arithmetic and the like

bool has_bodies(const Node& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(),
                     [](const auto& item) { return type_of(item.second) == AttrType::graph; });
}

// Collects the operands; false if one is not known.
bool known_operands(const Graph& graph, const Node& node, std::vector<Tensor>& operands) {
  for (const ValueId input : node.inputs) {
    const Tensor* tensor = graph.constant(input);
    if (input.present() && !tensor) return false;
    operands.push_back(tensor ? *tensor : Tensor());
  }
  return true;
}

// Shape and Size need only the shape of their operand.
bool fold_shape_only(const Graph& graph, const Node& node, std::vector<Tensor>& results) {
  const Value& v = graph.value(node.inputs[0]);
  if (!v.shape) return false;
  Graph one;
  const ValueId input = one.add_input("x", v.dtype, *v.shape);
  const NodeId id = one.add_node(*node.op, {input}, node.attrs, 1, node.name);
  if (!infer_node(one, id)) return false;
  const Value& out = one.value(one.node(id).outputs[0]);
  results.emplace_back(out.dtype, *out.shape);
  const ConstView in{v.dtype, *v.shape, nullptr};
  View view = results[0].view();
  node.op->cpu.back().run({.node = &one.node(id), .inputs = {&in, 1}, .outputs = {&view, 1}});
  return true;
}

bool worth_folding(const Graph& graph, const Node& node) {
  if (is_op(node, "DequantizeLinear")) return false;  // the int8 pass and quantized files need the integers
  int64_t in = 0, out = 0;
  for (const ValueId input : node.inputs) {
    if (const Tensor* tensor = graph.constant(input)) in += tensor->bytes();
  }
  for (const ValueId output : node.outputs) {
    const Value& v = graph.value(output);
    if (!v.shape) return node.op->traits.dynamic;  // small by nature: NonZero or Unique of a constant
    out += storage_bytes(v.dtype, v.shape->elements());
  }
  return out <= std::max(in, kAlwaysFold);
}

void append(std::string& key, const void* data, size_t bytes) { key.append(static_cast<const char*>(data), bytes); }

std::string tensor_key(const Tensor& tensor) {
  std::string key = fmt::format("{}{}", static_cast<int>(tensor.dtype()), tensor.shape().str());
  append(key, tensor.raw(), static_cast<size_t>(tensor.bytes()));
  return key;
}

// Nodes with equal keys have equal attributes; empty if a node must not be shared.
std::string attribute_key(const Node& node) {
  std::string key = "#";
  for (const auto& [name, value] : node.attrs) {
    key += name + '\0' + static_cast<char>(value.index());
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      append(key, integer, sizeof(*integer));
    } else if (const auto* real = std::get_if<float>(&value)) {
      append(key, real, sizeof(*real));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      key += *text;
    } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
      append(key, integers->data(), integers->size() * sizeof(int64_t));
    } else if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
      append(key, reals->data(), reals->size() * sizeof(float));
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (const std::string& item : *texts) key += item + '\0';
    } else if (const auto* tensor = std::get_if<Tensor>(&value)) {
      key += tensor_key(*tensor);
    } else {
      return {};  // bodies are not compared
    }
    key += '\0';
  }
  return key;
}

bool try_expand(Edit& edit, NodeId id) {
  Graph& graph = edit.graph();
  const Node node = graph.node(id);
  if (!node.op->cpu.empty() || !node.op->expand) return false;
  for (const ValueId input : node.inputs) {
    if (input.present() && !graph.value(input).shape) return false;  // it belongs to a later plan segment
  }
  Builder builder(graph, node.name);
  ExpandContext context{builder, node};
  std::vector<ValueId> results;
  try {
    results = node.op->expand(context);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {} (node \"{}\")", node.op->name, error.what(), graph.label(id)));
  }
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
    if (results[i].present()) edit.replace(node.outputs[i], results[i]);
  }
  edit.erase_if_dead(id);
  if (!graph.erased(id))
    fail_internal("{}: its expansion leaves an output out (node \"{}\")", node.op->name, node.name);
  return true;
}

}  // namespace

int expand_ops(Graph& graph) {
  int changes = 0;
  Edit edit(graph);
  // An expansion may contain ops that expand again; the length of such chains is limited by the op table, not by the
  // file.
  for (int before = -1; before != changes;) {
    before = changes;
    name_stateful(graph);
    for (const NodeId id : graph.order()) {
      if (graph.erased(id)) continue;
      infer_node(graph, id);
      changes += try_expand(edit, id);
    }
  }
  return changes;
}

// Folding an operand makes shapes and conditions known: old op versions are expanded then, branches are chosen, and
// their contents are folded before their readers, so that one pass over the graph is enough.
int fold_constants(Graph& graph) {
  int changes = 0;
  Edit edit(graph);
  std::vector<NodeId> work = graph.order();
  std::reverse(work.begin(), work.end());
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    if (graph.erased(id)) continue;
    infer_node(graph, id);  // folding an operand may have made this node's shape known
    const int before = graph.node_count();
    if (try_expand(edit, id) || inline_branch(edit, id)) {
      for (int made = graph.node_count(); made-- > before;) work.push_back(NodeId{made});
      ++changes;
      continue;
    }
    const Node& node = graph.node(id);
    if (!node.op->traits.pure || has_bodies(node) || node.op->cpu.empty()) continue;
    std::vector<Tensor> operands, results;
    if (node.op->traits.shape_only && !node.inputs.empty() && node.inputs[0].present()) {
      if (!fold_shape_only(graph, node, results)) continue;
    } else if (known_operands(graph, node, operands) && worth_folding(graph, node)) {
      results = evaluate(node, operands);
    } else {
      continue;
    }
    const std::vector<ValueId> outputs = node.outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string name = graph.value(outputs[i]).name;
      edit.replace(outputs[i], graph.add_constant(std::move(results[i]), name));
    }
    ++changes;
  }
  return changes;
}

int share_common(Graph& graph) {
  int changes = 0;
  Edit edit(graph);
  std::map<std::string, ValueId> constants;
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor* tensor = graph.constant(ValueId{i});
    if (!tensor || tensor->bytes() > kAlwaysFold) continue;
    const auto [at, fresh] = constants.emplace(tensor_key(*tensor), ValueId{i});
    if (!fresh) edit.replace(ValueId{i}, at->second);
  }
  std::map<std::string, NodeId> seen;
  for (const NodeId id : graph.order()) {
    if (graph.erased(id) || !graph.node(id).op->traits.pure) continue;
    const Node node = graph.node(id);
    std::string key = attribute_key(node);
    if (key.empty()) continue;
    append(key, &node.op, sizeof(node.op));
    for (const ValueId input : node.inputs) append(key, &input.index, sizeof(input.index));
    key += static_cast<char>(node.outputs.size());
    const auto [at, fresh] = seen.emplace(std::move(key), id);
    if (fresh) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      edit.replace(node.outputs[i], graph.node(at->second).outputs[i]);
    }
    edit.erase_if_dead(id);
    ++changes;
  }
  return changes;
}

int drop_dead(Graph& graph) {
  const int before = static_cast<int>(graph.order().size());
  graph.compact();
  return before - graph.node_count();
}

}  // namespace sparkpilot

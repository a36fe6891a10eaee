#include "ir/dot.h"

#include "base/error.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

// Escapes text for a quoted dot label.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return out;
}

std::string type_of(const Value& value) {
  return fmt::format("{}{}", name(value.dtype), value.shape ? value.shape->str() : "[?]");
}

void write_node(const Graph& graph, NodeId id, std::string& out) {
  const Node& node = graph.node(id);
  int constants = 0;
  for (const ValueId input : node.inputs) {
    if (!input.present()) continue;
    if (graph.constant(input)) ++constants;
    else out += fmt::format("  v{} -> n{} [label=\"{}\"];\n", input.index, id.index, type_of(graph.value(input)));
  }
  std::string label = escaped(qualified(*node.op));
  if (!node.name.empty()) label += "\\n" + escaped(node.name);
  if (constants > 0) label += fmt::format("\\n{} constant{}", constants, constants > 1 ? "s" : "");
  if (!node.outputs.empty()) label += "\\n" + type_of(graph.value(node.outputs[0]));
  out += fmt::format("  n{} [shape=box, label=\"{}\"];\n", id.index, label);
  // An edge from a value starts at the node that makes it.
  for (const ValueId output : node.outputs) {
    if (output.present())
      out += fmt::format("  v{} [shape=point, width=0.03, label=\"\"];\n  n{} -> v{} [dir=none];\n", output.index,
                         id.index, output.index);
  }
}

}  // namespace

std::string to_dot(const Graph& graph) {
  std::string out =
      fmt::format("digraph \"{}\" {{\n  node [fontname=\"sans-serif\", fontsize=10];\n", escaped(graph.name));
  const auto ellipse = [&](ValueId id, std::string_view kind) {
    const Value& value = graph.value(id);
    out += fmt::format("  v{} [shape=ellipse, label=\"{} {}\\n{}\"];\n", id.index, kind, escaped(value.name),
                       type_of(value));
  };
  for (const ValueId id : graph.inputs()) ellipse(id, "input");
  for (const State& state : graph.states()) ellipse(state.value, "state");
  for (const NodeId id : graph.order()) write_node(graph, id, out);
  int index = 0;
  for (const Graph::Output& output : graph.outputs()) {
    out += fmt::format("  o{} [shape=ellipse, label=\"output {}\"];\n  v{} -> o{};\n", index, escaped(output.name),
                       output.value.index, index);
    ++index;
  }
  for (const State& state : graph.states()) {
    if (state.next.present()) out += fmt::format("  v{} -> v{} [style=dashed];\n", state.next.index, state.value.index);
  }
  return out + "}\n";
}

}  // namespace sparkpilot

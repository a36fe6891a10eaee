#include "onnx/lower.h"

#include <optional>

#include "base/error.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "onnx/compositions.h"
#include "onnx/export.h"
#include "onnx/later_parts.h"
#include "onnx/older_forms.h"
#include "onnx/unsupported.h"

namespace sparkpilot {
namespace {

constexpr int kOldestExportOpset = 7;

bool internal(const OpDef& op) { return op.domain == "sparkpilot"; }

// Whether the op's name means this same op in that opset.
bool fits(const Graph& graph, const Node& node, int opset) {
  const OpDef& op = *node.op;
  if (internal(op) || needs_later_parts(graph, node, opset)) return false;
  return !op.domain.empty() || find_op("", op.name, opset) == &op;
}

std::optional<NodeId> first_misfit(const Graph& graph, int opset) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!fits(graph, node, opset)) return id;
    for (const auto& [key, value] : node.attrs) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value);
      if (body && first_misfit(**body, opset)) return id;
    }
  }
  return std::nullopt;
}

ExpandFn expansion_of(const OpDef& op) { return op.expand ? op.expand : find_composition(op); }

// Replaces the node by its expansion; false if its input shapes are not known.
bool expand_node(Graph& graph, NodeId id, int opset, Replacements& replaced) {
  const Node node = graph.node(id);
  for (const ValueId input : node.inputs) {
    if (input.present() && !graph.value(input).shape) return false;
  }
  // Ordinary expansions use the newest form of each op, which can be rewritten to an older one; those of internal ops
  // support old opsets themselves.
  Builder builder(graph, node.name, internal(*node.op) ? opset : kNewestExportOpset);
  ExpandContext context{builder, node};
  const std::vector<ValueId> results = expansion_of(*node.op)(context);
  for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
    if (!results[i].present()) continue;
    Value& result = graph.value(results[i]);
    if (result.name.empty()) result.name = graph.value(node.outputs[i]).name;
    if (!result.declared) result.declared = graph.value(node.outputs[i]).declared;
    replaced.add(node.outputs[i], results[i]);
  }
  graph.erase(id);
  return true;
}

// Rewrites nodes that `opset` cannot express in older forms, or expands them; fails (user) if neither is possible.
void rewrite_misfits(Graph& graph, int opset) {
  // An expansion may contain such nodes again; the op table bounds the depth.
  for (bool changed = true; changed;) {
    changed = false;
    Replacements replaced;
    for (const NodeId id : graph.order()) {
      replaced.apply(graph.node(id));
      infer_node(graph, id);
      const OpDef& op = *graph.node(id).op;
      if (fits(graph, graph.node(id), opset)) continue;
      if (write_older_form(graph, id, opset, replaced)) {
        changed = true;
        continue;
      }
      if (!expansion_of(op)) {
        throw Unsupported(
            fmt::format("{} has no form in ONNX's opset {} (node \"{}\")", qualified(op), opset, graph.label(id)));
      }
      if (!expand_node(graph, id, opset, replaced)) {
        fail(
            "{}: cannot be written in ONNX's opset {} before its input shapes are known: simplify the model, and give "
            "its open dimensions sizes (node \"{}\")",
            qualified(op), opset, graph.label(id));
      }
      changed = true;
    }
    replaced.apply(graph);
  }
}

// Rewrites until every node, in bodies too, belongs to that opset; fails (user) if one cannot.
void rewrite_for(Graph& graph, int opset) {
  rewrite_misfits(graph, opset);
  if (const std::optional<NodeId> id = first_misfit(graph, opset)) {
    fail("{}: its body cannot be written in ONNX's opset {} (node \"{}\")", qualified(*graph.node(*id).op), opset,
         graph.label(*id));
  }
}

// Keeps the opset that the file was read in if possible: the file's users may not support a newer one.
bool keep_own_opset(Graph& graph, int own) {
  if (own < kOldestExportOpset || own > kNewestExportOpset) return false;
  Graph rewritten = graph;
  try {
    rewrite_for(rewritten, own);
  } catch (const Error&) {
    return false;
  }
  graph = std::move(rewritten);
  return true;
}

}  // namespace

void Replacements::apply(Node& node) const {
  for (ValueId& input : node.inputs) input = now(input);
}

void Replacements::apply(Graph& graph) const {
  if (to_.empty()) return;
  for (int i = 0; i < graph.node_count(); ++i) apply(graph.node(NodeId{i}));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    graph.set_output(static_cast<int>(i), now(graph.outputs()[i].value));
  }
  for (const State& state : graph.states()) graph.set_next(state.value, now(state.next));
}

namespace {

int lowered(Graph& graph, int wanted) {
  if (wanted != 0 && (wanted < kOldestExportOpset || wanted > kNewestExportOpset)) {
    fail("opset {} cannot be written, {} to {} can", wanted, kOldestExportOpset, kNewestExportOpset);
  }
  const auto declared = graph.opsets.find("");
  const int own = declared == graph.opsets.end() ? kNewestExportOpset : declared->second;
  std::vector<int> candidates;
  if (wanted != 0) {
    candidates = {wanted};
  } else {
    if (own <= kNewestExportOpset) candidates.push_back(own);
    for (int opset = kNewestExportOpset; opset >= kOldestExportOpset; --opset) candidates.push_back(opset);
  }
  for (const int opset : candidates) {
    if (!first_misfit(graph, opset)) return opset;
    if (wanted == 0 && opset == own && keep_own_opset(graph, own)) return own;
  }
  const int opset = wanted != 0 ? wanted : kNewestExportOpset;
  rewrite_for(graph, opset);
  return opset;
}

}  // namespace

int lower_for_export(Graph& graph, int wanted) {
  const int opset = lowered(graph, wanted);
  if (opset < 11) count_axes_from_the_front(graph, wanted != 0);
  return opset;
}

}  // namespace sparkpilot

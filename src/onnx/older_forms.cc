#include "onnx/older_forms.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ir/attributes.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "ir/resize.h"
#include "onnx/later_parts.h"

namespace sparkpilot {
namespace {

struct Spelling {
  std::string_view op;
  std::vector<ValueId> inputs;
  Attributes attrs;
};

// A node in its newest form, with what is known of its operands.
struct Newest {
  const Graph& graph;
  const Node& node;
  int opset;

  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i].present(); }
  ValueId in(size_t i) const { return has(i) ? node.inputs[i] : ValueId{}; }
  const Tensor* constant(size_t i) const { return has(i) ? graph.constant(node.inputs[i]) : nullptr; }
  const std::optional<Shape>& shape(size_t i) const { return graph.value(node.inputs[i]).shape; }
  // The first operand only, with the attributes in `kept`.
  Spelling alone(std::initializer_list<std::string_view> kept) const {
    Spelling spelling{node.op->name, {in(0)}, {}};
    for (const std::string_view key : kept) {
      if (const Attribute* value = node.attrs.find(key)) spelling.attrs.set(key, *value);
    }
    return spelling;
  }
};
using Older = std::optional<Spelling>;

// Turns an operand back into an attribute; false if it is present but not constant. A list here, a single number in
// take_real().
bool take_list(const Newest& n, size_t i, std::string_view key, Spelling& spelling) {
  const Tensor* tensor = n.constant(i);
  if (tensor) spelling.attrs.set(key, tensor->to_ints());
  return tensor || !n.has(i);
}
bool take_real(const Newest& n, size_t i, std::string_view key, Spelling& spelling) {
  const Tensor* tensor = n.constant(i);
  if (tensor && tensor->elements() != 1) return false;
  if (tensor) spelling.attrs.set(key, static_cast<float>(tensor->to_scalar()));
  return tensor || !n.has(i);
}

Older reduce(const Newest& n) {
  Spelling s = n.alone({"keepdims"});
  if (!take_list(n, 1, "axes", s)) return {};
  const Attribute* axes = s.attrs.find("axes");
  if (axes && !std::get<std::vector<int64_t>>(*axes).empty()) return s;
  // No axes means all axes, or none.
  if (n.node.attrs.integer("noop_with_empty_axes", 0) != 0) return Spelling{"Identity", {n.in(0)}, {}};
  s.attrs.erase("axes");
  return s;
}

Older axes(const Newest& n) {
  Spelling s = n.alone({});
  return take_list(n, 1, "axes", s) ? Older(s) : std::nullopt;
}

// The parts' sizes: equal ones are not written; others are an operand since opset 13, an attribute before.
Older split(const Newest& n) {
  Spelling s = n.alone({"axis"});
  if (n.has(1)) return n.opset < 13 && take_list(n, 1, "split", s) ? Older(s) : std::nullopt;
  const std::optional<Shape>& in = n.shape(0);  // uneven parts would need num_outputs
  const auto parts = static_cast<int64_t>(n.node.outputs.size());
  if (!in || (*in)[normalize_axis(n.node.attrs.integer("axis", 0), in->rank())] % parts != 0) return {};
  return s;
}

// Before opset 13 Softmax went over all axes from `axis` on.
Older softmax(const Newest& n) {
  const std::optional<Shape>& in = n.shape(0);
  if (!in || in->rank() == 0) return {};
  const int axis = normalize_axis(n.node.attrs.integer("axis", -1), in->rank());
  if (in->elements(axis + 1, in->rank()) != 1) return {};
  Spelling s = n.alone({});
  s.attrs.set("axis", int64_t{axis});
  return s;
}

Older clip(const Newest& n) {
  Spelling s = n.alone({});
  const DType dtype = n.graph.value(n.in(0)).dtype;
  if (!is_float(dtype) || dtype == DType::f64) return {};  // the attributes are single precision
  return take_real(n, 1, "min", s) && take_real(n, 2, "max", s) ? Older(s) : std::nullopt;
}

Older pad(const Newest& n) {
  Spelling s = n.alone({"mode"});
  if (!is_float(n.graph.value(n.in(0)).dtype) || n.has(3) || n.node.attrs.text("mode", "constant") == "wrap") return {};
  return n.has(1) && take_list(n, 1, "pads", s) && take_real(n, 2, "value", s) ? Older(s) : std::nullopt;
}

Older slice(const Newest& n) {
  Spelling s = n.alone({});
  if (n.has(4)) {
    const Tensor* steps = n.constant(4);
    if (!steps || !std::ranges::all_of(steps->to_ints(), [](int64_t step) { return step == 1; })) return {};
  }
  const bool known = take_list(n, 1, "starts", s) && take_list(n, 2, "ends", s) && take_list(n, 3, "axes", s);
  return known ? Older(s) : std::nullopt;
}

Older top_k(const Newest& n) {
  const Tensor* k = n.constant(1);
  if (!k || k->elements() != 1 || n.node.attrs.integer("largest", 1) == 0) return {};
  Spelling s = n.alone({"axis"});
  s.attrs.set("k", k->to_ints()[0]);
  return s;
}

// Only what Upsample and the first Resize could do. The latter rounds positions down on axes that grow, and up on those
// that shrink; Upsample only enlarges.
Older resize(const Newest& n) {
  const Attributes& attrs = n.node.attrs;
  const std::string mode = attrs.text("mode", "nearest"), nearest = attrs.text("nearest_mode", "round_prefer_floor");
  if (!n.has(2) || n.has(3) || mode == "cubic" || attrs.has("axes") || attrs.integer("antialias", 0) != 0 ||
      attrs.text("coordinate_transformation_mode", "half_pixel") != "asymmetric") {
    return {};
  }
  Spelling s = n.alone({"mode"});
  if (n.opset == 10 && (mode != "nearest" || nearest == kRoundByScale)) {
    s.inputs.push_back(n.in(2));
    return s;
  }
  const Tensor* scales = n.constant(2);
  if (!scales || scales->dtype() != DType::f32 || scales->elements() == 0) return {};
  const auto values = scales->data<float>();
  const bool grows = std::ranges::any_of(values, [](float scale) { return scale > 1; }),
             shrinks = std::ranges::any_of(values, [](float scale) { return scale < 1; });
  if (mode == "nearest" && nearest != kRoundByScale && !(nearest == "floor" && !shrinks) &&
      !(nearest == "ceil" && !grows))
    return {};
  if (n.opset < 10 && shrinks) return {};
  if (n.opset < 10) s.op = "Upsample";
  if (n.opset >= 9) {
    s.inputs.push_back(n.in(2));
  } else {
    s.attrs.set("scales", std::vector<float>(values.begin(), values.end()));
  }
  return s;
}

Older reshape(const Newest& n) {
  const Tensor* shape = n.constant(1);
  if (!shape || std::ranges::count(shape->to_ints(), 0) > 0) return {};  // a zero's meaning depends on `allowzero`
  return Spelling{"Reshape", n.node.inputs, {}};
}

constexpr std::pair<std::string_view, Older (*)(const Newest&)> kRewrites[] = {
    {"Clip", clip},           {"Hardmax", softmax},        {"LogSoftmax", softmax}, {"Pad", pad},
    {"Reshape", reshape},     {"Resize", resize},          {"Slice", slice},        {"Softmax", softmax},
    {"Split", split},         {"Squeeze", axes},           {"TopK", top_k},         {"Unsqueeze", axes},
    {"ReduceSum", reduce},    {"ReduceMean", reduce},      {"ReduceMax", reduce},   {"ReduceMin", reduce},
    {"ReduceProd", reduce},   {"ReduceL1", reduce},        {"ReduceL2", reduce},    {"ReduceSumSquare", reduce},
    {"ReduceLogSum", reduce}, {"ReduceLogSumExp", reduce},
};

}  // namespace

bool write_older_form(Graph& graph, NodeId id, int opset, Replacements& replaced) {
  const Node node = graph.node(id);
  if (!node.op->domain.empty() || has_later_type(graph, node, opset)) return false;
  // Other ops of that opset are spelled as they are; what came to them later has no form in it.
  const bool by_attribute = node.op->name == "Reshape" || node.op->name == "Split";
  if (node.op->since <= opset && (!by_attribute || !needs_later_parts(graph, node, opset))) return false;
  if (node.inputs.empty() || !node.inputs[0].present()) return false;  // the node has not been checked yet
  const auto rewrite = std::ranges::find(kRewrites, node.op->name, [](const auto& entry) { return entry.first; });
  if (rewrite == std::end(kRewrites)) return false;
  Older older = rewrite->second({graph, node, opset});
  const OpDef* op = older ? find_op("", older->op, opset) : nullptr;
  if (!op) return false;
  const int outputs = static_cast<int>(node.outputs.size());
  const NodeId made = graph.add_node(*op, std::move(older->inputs), std::move(older->attrs), outputs, node.name);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    // Forms that only expand have no inference: keep what is known of the value.
    const Value& from = graph.value(node.outputs[i]);
    Value& to = graph.value(graph.node(made).outputs[i]);
    to.name = from.name;
    to.dtype = from.dtype;
    to.shape = from.shape;
    to.declared = from.declared;
  }
  if (needs_later_parts(graph, graph.node(made), opset)) {  // or it would be rewritten again and again
    graph.erase(made);
    return false;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) replaced.add(node.outputs[i], graph.node(made).outputs[i]);
  graph.erase(id);
  return true;
}

void count_axes_from_the_front(Graph& graph, bool wanted) {
  // These took negative axes before.
  constexpr std::string_view kAlways[] = {"Gather", "LpNormalization", "OneHot", "TopK"};
  for (const NodeId id : graph.order()) {
    infer_node(graph, id);
    Node& node = graph.node(id);
    rewrite_bodies(node.attrs, [&](Graph& body) {
      count_axes_from_the_front(body, wanted);
      return true;
    });
    if (!node.op->domain.empty() || node.inputs.empty() || !node.inputs[0].present()) continue;
    if (std::ranges::find(kAlways, node.op->name) != std::end(kAlways)) continue;
    const Value& counted = graph.value(node.op->name == "Unsqueeze" ? node.outputs[0] : node.inputs[0]);
    const auto rank = counted.shape ? counted.shape->rank() : counted.declared ? std::ssize(*counted.declared) : -1;
    const auto from_front = [&](int64_t& axis) {
      if (axis >= 0) return;
      if (rank >= 0) {
        axis += rank;
      } else if (wanted) {
        fail(
            "{}: its axis {} cannot be written in an opset before 11 before its input shapes are known: give the "
            "model's open dimensions sizes (node \"{}\")",
            qualified(*node.op), axis, graph.label(id));
      }
    };
    if (const Attribute* found = node.attrs.find("axis"); found && std::holds_alternative<int64_t>(*found)) {
      int64_t axis = std::get<int64_t>(*found);
      from_front(axis);
      node.attrs.set("axis", axis);
    }
    if (const Attribute* found = node.attrs.find("axes");
        found && std::holds_alternative<std::vector<int64_t>>(*found)) {
      std::vector<int64_t> axes = std::get<std::vector<int64_t>>(*found);
      for (int64_t& axis : axes) from_front(axis);
      node.attrs.set("axes", axes);
    }
  }
}

}  // namespace sparkpilot

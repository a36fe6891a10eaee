#include "passes/narrow.h"

#include <algorithm>

namespace sparkpilot {
namespace {

using Result = std::optional<Narrowed>;

// The same selection in an operand that broadcasts to `full`; absent where it has one element along the axis.
std::optional<Pick> broadcast_pick(const Shape& operand, const Shape& full, const Pick& pick) {
  const int axis = pick.axis - (full.rank() - operand.rank());
  if (axis < 0 || operand[axis] == 1) return {};
  return Pick{axis, pick.start, pick.count};
}

Narrowed same_attrs(Edit& edit, NodeId id) {
  Narrowed out;
  out.attrs = edit.node(id).attrs;
  out.inputs.resize(edit.node(id).inputs.size());
  return out;
}

Result elementwise(Edit& edit, NodeId id, const Pick& pick) {
  Narrowed out = same_attrs(edit, id);
  const Node& node = edit.node(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].present()) continue;
    out.inputs[i] = broadcast_pick(edit.shape(node.inputs[i]), edit.shape(node.outputs[0]), pick);
  }
  return out;
}

// Softmax and norms along one axis.
Result along_axis(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  if (normalize_axis(node.attrs.integer("axis", -1), edit.shape(node.inputs[0]).rank()) == pick.axis) return {};
  Narrowed out = same_attrs(edit, id);
  out.inputs[0] = pick;
  out.saves = true;
  return out;
}

// Norms over all axes from `axis` on, with operands that broadcast.
Result row_norm(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  if (pick.axis >= normalize_axis(node.attrs.integer("axis", -1), edit.shape(node.inputs[0]).rank())) return {};
  Result out = elementwise(edit, id, pick);
  out->saves = true;
  return out;
}

Result reduction(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const auto axes = reduced_axes(edit.graph(), node);
  if (!axes) return {};
  const bool keep = node.attrs.integer("keepdims", 1) != 0;
  int out_axis = 0;
  for (int axis = 0; axis < edit.shape(node.inputs[0]).rank(); ++axis) {
    const bool reduced = std::find(axes->begin(), axes->end(), axis) != axes->end();
    if (!reduced && out_axis == pick.axis) {
      Narrowed out = same_attrs(edit, id);
      out.inputs[0] = Pick{axis, pick.start, pick.count};
      out.saves = true;
      return out;
    }
    if (!reduced || keep) ++out_axis;
  }
  return {};
}

Result matmul(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const Shape a = edit.shape(node.inputs[0]), b = edit.shape(node.inputs[1]), y = edit.shape(node.outputs[0]);
  if (a.rank() < 2 || b.rank() < 2) return {};
  Narrowed out = same_attrs(edit, id);
  out.saves = true;
  if (pick.axis == y.rank() - 2) {
    out.inputs[0] = Pick{a.rank() - 2, pick.start, pick.count};
  } else if (pick.axis == y.rank() - 1) {
    out.inputs[1] = Pick{b.rank() - 1, pick.start, pick.count};
  } else {
    out.inputs[0] = broadcast_pick(a, y, pick);
    out.inputs[1] = broadcast_pick(b, y, pick);
  }
  return out;
}

Result gemm(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  Narrowed out = same_attrs(edit, id);
  out.saves = true;
  const bool rows = pick.axis == 0;
  const bool transposed = node.attrs.integer(rows ? "transA" : "transB", 0) != 0;
  out.inputs[rows ? 0 : 1] = Pick{rows == transposed ? 1 : 0, pick.start, pick.count};
  if (node.inputs.size() > 2 && node.inputs[2].present()) {
    out.inputs[2] = broadcast_pick(edit.shape(node.inputs[2]), edit.shape(node.outputs[0]), pick);
  }
  return out;
}

// Images of a batch, or output channels.
Result convolution(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  Narrowed out = same_attrs(edit, id);
  out.saves = true;
  if (pick.axis == 0) {
    out.inputs[0] = pick;
    return out;
  }
  if (pick.axis != 1 || node.attrs.integer("group", 1) != 1 || !edit.constant(node.inputs[1])) return {};
  out.inputs[1] = Pick{0, pick.start, pick.count};
  if (node.inputs.size() > 2 && node.inputs[2].present()) out.inputs[2] = Pick{0, pick.start, pick.count};
  return out;
}

Result transpose(Edit& edit, NodeId id, const Pick& pick) {
  Narrowed out = same_attrs(edit, id);
  const std::vector<int> perm = permutation_of(edit.node(id), edit.shape(edit.node(id).inputs[0]).rank());
  out.inputs[0] = Pick{perm[static_cast<size_t>(pick.axis)], pick.start, pick.count};
  return out;
}

// The axis must be one axis of the input too.
Result view(Edit& edit, NodeId id, const Pick& pick) {
  const Shape from = edit.shape(edit.node(id).inputs[0]), to = edit.shape(edit.node(id).outputs[0]);
  const int64_t outer = to.elements(0, pick.axis);
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] != to[pick.axis] || from.elements(0, axis) != outer) continue;
    Narrowed out = same_attrs(edit, id);
    out.inputs[0] = Pick{axis, pick.start, pick.count};
    out.reshape = true;
    return out;
  }
  return {};
}

Result concat(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  Narrowed out = same_attrs(edit, id);
  if (normalize_axis(node.attrs.integer("axis"), edit.shape(node.outputs[0]).rank()) != pick.axis) {
    std::fill(out.inputs.begin(), out.inputs.end(), pick);
    return out;
  }
  int64_t offset = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int64_t size = edit.shape(node.inputs[i])[pick.axis];
    if (pick.start >= offset && pick.start + pick.count <= offset + size) {
      out.inputs[i] = Pick{pick.axis, pick.start - offset, pick.count};
      out.through = true;
      return out;
    }
    offset += size;
  }
  return {};
}

// Rows of a table picked by indices: a selection of the indices' own axes, or of the table's other ones.
Result gather(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const Shape data = edit.shape(node.inputs[0]), indices = edit.shape(node.inputs[1]);
  const int axis = normalize_axis(node.attrs.integer("axis", 0), data.rank());
  Narrowed out = same_attrs(edit, id);
  if (pick.axis < axis) out.inputs[0] = pick;
  else if (pick.axis < axis + indices.rank()) out.inputs[1] = Pick{pick.axis - axis, pick.start, pick.count};
  else out.inputs[0] = Pick{pick.axis - indices.rank() + 1, pick.start, pick.count};
  return out;
}

// Rows of a causal mask as a tensor, where they keep anything back.
Tensor causal_rows(const Pick& pick, int64_t columns) {
  Tensor mask = Tensor::zeros(DType::boolean, Shape{pick.count, columns});
  for (int64_t i = 0; i < pick.count; ++i) {
    for (int64_t j = 0; j < columns && j <= pick.start + i; ++j)
      mask.data<bool>()[static_cast<size_t>(i * columns + j)] = true;
  }
  return mask;
}

// Rows of the internal Gemm.
Result fused_gemm(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const Shape y = edit.shape(node.outputs[0]);
  if (pick.axis == y.rank() - 1) return {};
  Narrowed out = same_attrs(edit, id);
  out.saves = true;
  out.inputs[0] = pick;
  for (size_t i = 3; i < node.inputs.size(); ++i) {
    if (node.inputs[i].present()) out.inputs[i] = broadcast_pick(edit.shape(node.inputs[i]), y, pick);
  }
  return out;
}

// Entries of the batch, or queries; keys and values stay whole then.
Result attention(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const int rank = edit.shape(node.inputs[0]).rank();
  if (pick.axis == 0 && node.inputs.size() <= 4) {
    Narrowed out = same_attrs(edit, id);
    out.saves = true;
    std::fill_n(out.inputs.begin(), 3, pick);
    if (node.inputs.size() > 3 && node.inputs[3].present()) {
      const Shape mask = edit.shape(node.inputs[3]);
      if (mask.rank() == 4 && mask[0] != 1) out.inputs[3] = pick;
    }
    return out;
  }
  if (node.inputs.size() > 4 || pick.axis != rank - 2) return {};
  Narrowed out = same_attrs(edit, id);
  out.saves = true;
  out.inputs[0] = pick;
  const bool masked = node.inputs.size() > 3 && node.inputs[3].present();
  const int64_t keys = edit.shape(node.inputs[1])[rank - 2];
  if (masked) {
    const Shape mask = edit.shape(node.inputs[3]);
    if (mask.rank() > 1 && mask[mask.rank() - 2] != 1) out.inputs[3] = Pick{mask.rank() - 2, pick.start, pick.count};
  }
  if (node.attrs.integer("is_causal", 0) == 0) return out;
  if (masked) return {};
  out.attrs.erase("is_causal");
  if (pick.start < keys - 1) out.mask = causal_rows(pick, keys);
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

struct Rule {
  std::string_view op;
  Result (*narrow)(Edit&, NodeId, const Pick&);
};
constexpr Rule kRules[] = {
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Conv", convolution},
    {"Transpose", transpose},
    {"Concat", concat},
    {"Gather", gather},
    {"Attention", attention},
    {"sparkpilot::Attention", attention},
    {"sparkpilot::Gemm", fused_gemm},
    {"Softmax", along_axis},
    {"LogSoftmax", along_axis},
    {"LpNormalization", along_axis},
    {"sparkpilot::L2Normalize", along_axis},
    {"LayerNormalization", row_norm},
    {"RMSNormalization", row_norm},
};

}  // namespace

std::optional<Narrowed> narrow_node(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  if (node.outputs.size() != 1 || node.inputs.empty()) return {};
  for (const ValueId input : node.inputs) {
    if (input.present() && !edit.known(input)) return {};
  }
  for (const Rule& rule : kRules) {
    if (is_op(node, rule.op)) return rule.narrow(edit, id, pick);
  }
  if (node.op->traits.view) return view(edit, id, pick);
  if (node.op->traits.elementwise) return elementwise(edit, id, pick);
  if (node.op->domain.empty() && starts_with(node.op->name, "Reduce")) return reduction(edit, id, pick);
  return {};
}

}  // namespace sparkpilot

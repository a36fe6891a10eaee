// Recognises normalisations written as single ops:
//   LayerNormalization  d / sqrt(mean(d^2) + epsilon), d = x - mean(x)
//   RMSNormalization    x / sqrt(mean(x^2) + epsilon)
//   L2Normalize         x / max(sqrt(sum(x^2)), epsilon)
#include <algorithm>
#include <cmath>

#include "passes/recognise.h"

namespace sparkpilot {
namespace {

// v as base^2.
bool is_square_of(Edit& edit, Region& region, ValueId v, ValueId base) {
  if (const Node* mul = region.take(v, "Mul")) return mul->inputs[0] == base && mul->inputs[1] == base;
  const Node* pow = region.take(v, "Pow");
  return pow && pow->inputs[0] == base && edit.scalar(pow->inputs[1]) == 2.0;
}

// The base of sqrt(base), as Sqrt or as Pow; absent if v is neither.
ValueId root_base(Edit& edit, Region& region, ValueId v) {
  if (const Node* root = region.take(v, "Sqrt")) return root->inputs[0];
  const Node* pow = region.take(v, "Pow");
  return pow && edit.scalar(pow->inputs[1]) == 0.5 ? pow->inputs[0] : ValueId{};
}

// The other operand of a commutative node and the scalar, if one operand is a scalar constant.
std::optional<std::pair<ValueId, double>> with_scalar(Edit& edit, const Node& node) {
  for (const size_t i : {size_t{1}, size_t{0}}) {
    if (const auto constant = edit.scalar(node.inputs[i])) return {{node.inputs[1 - i], *constant}};
  }
  return {};
}

// y = a / b or a * (1 / b): the node's dividend and divisor. `order` says which operand of a Mul to try as the inverse.
// If the divisor is a power of -1/2, the base is returned with `root` set.
struct Quotient {
  ValueId dividend, divisor;
  bool root = false;  // the divisor is sqrt(divisor)
};
std::optional<Quotient> quotient(Edit& edit, Region& region, NodeId id, size_t order) {
  const Node& node = edit.node(id);
  if (is_op(node, "Div")) {
    if (order > 0) return {};
    return Quotient{node.inputs[0], node.inputs[1]};
  }
  if (!is_op(node, "Mul")) return {};
  const ValueId dividend = node.inputs[order], inverse = node.inputs[1 - order];
  if (const Node* reciprocal = region.take(inverse, "Reciprocal")) return Quotient{dividend, reciprocal->inputs[0]};
  if (const Node* one = region.take(inverse, "Div")) {
    if (edit.scalar(one->inputs[0]) == 1.0) return Quotient{dividend, one->inputs[1]};
    return {};
  }
  const Node* pow = region.take(inverse, "Pow");
  if (!pow || edit.scalar(pow->inputs[1]) != -0.5) return {};
  return Quotient{dividend, pow->inputs[0], true};
}

// If a reduction keeps dimensions and runs over exactly the last axes: the first of them; else -1.
int last_axes(Edit& edit, const Node& reduce) {
  const auto axes = reduced_axes(edit.graph(), reduce);
  if (!axes || axes->empty() || reduce.attrs.integer("keepdims", 1) != 1) return -1;
  const int rank = edit.shape(reduce.inputs[0]).rank();
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != rank - static_cast<int>(axes->size() - i)) return -1;
  }
  return (*axes)[0];
}

ValueId filled(Edit& edit, DType dtype, const Shape& shape, double value) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) store_element(dtype, tensor.raw(), i, value);
  return edit.graph().add_constant(std::move(tensor));
}

Shape row_shape(const Shape& shape, int axis) { return Shape(shape.dims().subspan(static_cast<size_t>(axis))); }

bool try_norm(Edit& edit, NodeId id, size_t order) {
  Region region(edit);
  region.take(id);
  const auto q = quotient(edit, region, id, order);
  if (!q || !edit.known(q->dividend)) return false;
  const ValueId d = q->dividend, y = edit.node(id).outputs[0];
  const ValueId biased = q->root ? q->divisor : root_base(edit, region, q->divisor);
  const Node* add = biased.present() ? region.take(biased, "Add") : nullptr;
  const auto variance = add ? with_scalar(edit, *add) : std::nullopt;
  const Node* reduce = variance ? region.take(variance->first, "ReduceMean") : nullptr;
  if (!reduce || !is_square_of(edit, region, reduce->inputs[0], d)) return false;
  const int axis = last_axes(edit, *reduce);
  if (axis < 0 || !(edit.shape(y) == edit.shape(d)) || variance->second < 0) return false;

  const size_t mark = region.mark();
  const Node* sub = region.take(d, "Sub");
  const Node* mean = sub ? region.take(sub->inputs[1], "ReduceMean") : nullptr;
  const bool centred = mean && mean->inputs[0] == sub->inputs[0] && last_axes(edit, *mean) == axis &&
                       edit.shape(sub->inputs[0]) == edit.shape(d);
  if (!centred) region.back_to(mark);
  if (!region.closed(y)) return false;
  const ValueId x = centred ? sub->inputs[0] : d;
  const ValueId ones = filled(edit, edit.dtype(x), row_shape(edit.shape(x), axis), 1);
  edit.replace(y, edit.make(id, centred ? "LayerNormalization" : "RMSNormalization", {x, ones},
                            {{"axis", int64_t{axis}}, {"epsilon", static_cast<float>(variance->second)}}));
  return true;
}

// A constant as one value for each element of a normalised row, if it broadcasts to that.
std::optional<Tensor> as_row(const Tensor& tensor, const Shape& row, int rank) {
  const Shape& shape = tensor.shape();
  if (shape.rank() > rank) return {};
  for (int i = 0; i < shape.rank(); ++i) {
    const int at = i - shape.rank() + row.rank();
    if (shape[i] != 1 && (at < 0 || shape[i] != row[at])) return {};
  }
  Tensor out(tensor.dtype(), row);
  const auto strides = shape.strides();
  const auto row_strides = row.strides();
  for (int64_t flat = 0; flat < row.elements(); ++flat) {
    int64_t from = 0;
    for (int i = std::max(0, shape.rank() - row.rank()); i < shape.rank(); ++i) {
      const int at = i - shape.rank() + row.rank();
      const int64_t index = flat / row_strides[static_cast<size_t>(at)] % row[at];
      if (shape[i] != 1) from += index * strides[static_cast<size_t>(i)];
    }
    store_element(out.dtype(), out.raw(), flat, load_element(tensor.dtype(), tensor.raw(), from));
  }
  return out;
}

Tensor combined(const Tensor& a, const Tensor& b, bool multiply) {
  Tensor out(a.dtype(), a.shape());
  for (int64_t i = 0; i < out.elements(); ++i) {
    const double x = load_element(a.dtype(), a.raw(), i), y = load_element(b.dtype(), b.raw(), i);
    store_element(out.dtype(), out.raw(), i, multiply ? x * y : x + y);
  }
  return out;
}

// Matches sqrt(sum(x^2)) along one axis, in any form; the axis, or -1. `squared`: v is the sum before the root.
int length_axis(Edit& edit, Region& region, ValueId v, ValueId x, bool squared) {
  const Node* reduce = nullptr;
  if (!squared) reduce = region.take(v, "ReduceL2");
  else reduce = region.take(v, "ReduceSumSquare");
  const bool whole = reduce != nullptr;
  if (!reduce && squared) reduce = region.take(v, "ReduceSum");
  if (!reduce) {
    if (squared) return -1;
    const ValueId base = root_base(edit, region, v);
    return base.present() ? length_axis(edit, region, base, x, true) : -1;
  }
  if (whole ? reduce->inputs[0] != x : !is_square_of(edit, region, reduce->inputs[0], x)) return -1;
  const auto axes = reduced_axes(edit.graph(), *reduce);
  return axes && axes->size() == 1 && edit.known(x) ? (*axes)[0] : -1;
}

// max(v, limit) as Clip or Max.
std::optional<std::pair<ValueId, double>> lower_limit(Edit& edit, Region& region, ValueId v) {
  if (const Node* max = region.take(v, "Max")) {
    return max->inputs.size() == 2 ? with_scalar(edit, *max) : std::nullopt;
  }
  const Node* clip = region.take(v, "Clip");
  if (!clip || clip->inputs.size() < 2) return {};
  const auto low = edit.scalar(clip->inputs[1]);
  if (clip->inputs.size() > 2 && clip->inputs[2].present()) {
    const auto high = edit.scalar(clip->inputs[2]);
    if (!high || *high < 1e30) return {};
  }
  if (!low) return {};
  return {{clip->inputs[0], *low}};
}

bool try_l2(Edit& edit, NodeId id, size_t order) {
  Region region(edit);
  region.take(id);
  const auto q = quotient(edit, region, id, order);
  if (!q || q->root || !edit.known(q->dividend)) return false;
  const ValueId x = q->dividend, y = edit.node(id).outputs[0];
  ValueId divisor = q->divisor;
  if (const Node* node = region.take(divisor, "Expand")) divisor = node->inputs[0];
  const ValueId before_expand = divisor;
  if (const Node* node = region.take(divisor, "Reshape")) divisor = node->inputs[0];
  int axis = -1;
  double epsilon = 0;
  const size_t mark = region.mark();
  if (const auto limit = lower_limit(edit, region, divisor)) {
    epsilon = limit->second;
    axis = length_axis(edit, region, limit->first, x, false);
  }
  if (axis < 0) {
    region.back_to(mark);
    const ValueId base = root_base(edit, region, divisor);
    const auto limit = base.present() ? lower_limit(edit, region, base) : std::nullopt;
    if (!limit || limit->second < 0) return false;
    epsilon = std::sqrt(limit->second);
    axis = length_axis(edit, region, limit->first, x, true);
  }
  if (axis < 0 || static_cast<float>(epsilon) <= 0 || !(edit.shape(y) == edit.shape(x))) return false;
  // The length must broadcast to all elements along the axis and to no others: one value per vector.
  if (!edit.known(before_expand) || !(edit.shape(before_expand) == edit.shape(x).with(axis, 1))) return false;
  if (!region.closed(y)) return false;
  edit.replace(y, edit.make(id, "sparkpilot::L2Normalize", {x},
                            {{"axis", int64_t{axis}}, {"epsilon", static_cast<float>(epsilon)}}));
  return true;
}

}  // namespace

bool recognise_norm(Edit& edit, NodeId id) { return try_norm(edit, id, 0) || try_norm(edit, id, 1); }

bool recognise_norm_affine(Edit& edit, NodeId id) {
  const bool layer = is_op(edit.node(id), "LayerNormalization");
  if (!layer && !is_op(edit.node(id), "RMSNormalization")) return false;
  const Node node = edit.node(id);
  if (node.outputs.size() > 1 || !edit.known(node.inputs[0])) return false;
  const NodeId next = edit.only_reader(node.outputs[0]);
  if (!next.present() || edit.readers(node.outputs[0]).size() != 1) return false;
  const Node& after = edit.node(next);
  const bool mul = is_op(after, "Mul"), add = is_op(after, "Add");
  if (!mul && !(add && layer)) return false;
  const ValueId other = after.inputs[after.inputs[0] == node.outputs[0] ? 1 : 0], y = after.outputs[0];
  const Shape shape = edit.shape(node.inputs[0]);
  const int axis = normalize_axis(node.attrs.integer("axis", -1), shape.rank());
  const Shape row = row_shape(shape, axis);
  const Tensor* factor = edit.constant(other);
  const Tensor* scale = edit.constant(node.inputs[1]);
  const bool has_bias = node.inputs.size() > 2 && node.inputs[2].present();
  const Tensor* bias = has_bias ? edit.constant(node.inputs[2]) : nullptr;
  if (!factor || !scale || (has_bias && !bias) || !(edit.shape(y) == shape)) return false;
  const auto operand = as_row(*factor, row, shape.rank()), old_scale = as_row(*scale, row, shape.rank());
  const auto old_bias = bias ? as_row(*bias, row, shape.rank()) : std::nullopt;
  if (!operand || !old_scale || (bias && !old_bias)) return false;

  Graph& graph = edit.graph();
  std::vector<ValueId> inputs{node.inputs[0],
                              graph.add_constant(mul ? combined(*old_scale, *operand, true) : *old_scale)};
  if (mul && old_bias) inputs.push_back(graph.add_constant(combined(*old_bias, *operand, true)));
  if (add) inputs.push_back(graph.add_constant(old_bias ? combined(*old_bias, *operand, false) : *operand));
  edit.replace(y, edit.make(id, layer ? "LayerNormalization" : "RMSNormalization", inputs, node.attrs));
  return true;
}

bool recognise_l2(Edit& edit, NodeId id) { return try_l2(edit, id, 0) || try_l2(edit, id, 1); }

}  // namespace sparkpilot

// Rewrites of one or two nodes that do not change any value: neutral operands, chains of views and transposes, copies.
#include <algorithm>
#include <cmath>

#include "ir/infer.h"
#include "passes/edit.h"
#include "passes/pass.h"
#include "passes/strided.h"
#include "passes/sum_of_pads.h"

namespace sparkpilot {
namespace {

// Whether every element of a constant is `value`.
bool all_equal(const Tensor& tensor, double value) {
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (load_element(tensor.dtype(), tensor.raw(), i) != value) return false;
  }
  return tensor.elements() > 0;
}

bool same_type(Edit& edit, ValueId a, ValueId b) {
  return edit.known(a) && edit.known(b) && edit.dtype(a) == edit.dtype(b) && edit.shape(a) == edit.shape(b);
}

// Replaces the node's only output by its input `i`. If the output leaves the graph and no node computes the input, an
// Identity stays.
bool pass_through(Edit& edit, NodeId id, size_t i = 0) {
  const ValueId input = edit.node(id).inputs[i], output = edit.node(id).outputs[0];
  if (edit.leaves_graph(output) && !edit.maker(input).present()) {
    if (is_op(edit.node(id), "Identity")) return false;
    edit.replace(output, edit.make(id, "Identity", {input}));
    return true;
  }
  edit.replace(output, input);
  return true;
}

bool drop_copy(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (is_op(node, "Identity")) return pass_through(edit, id);
  if (is_op(node, "Dropout")) {
    const bool training = node.inputs.size() > 2 && edit.scalar(node.inputs[2]) != 0.0;
    const bool mask =
        node.outputs.size() > 1 && (edit.leaves_graph(node.outputs[1]) || !edit.readers(node.outputs[1]).empty());
    return !training && !mask && pass_through(edit, id);
  }
  if (node.outputs.size() != 1 || node.inputs.empty() || !same_type(edit, node.inputs[0], node.outputs[0]))
    return false;
  if (is_op(node, "Cast") || is_op(node, "CastLike") || is_op(node, "Tile") || is_op(node, "Expand")) {
    return pass_through(edit, id);
  }
  const bool variadic = is_op(node, "Concat") || is_op(node, "Sum") || is_op(node, "Max") || is_op(node, "Min") ||
                        is_op(node, "Mean") || is_op(node, "Split");
  if (variadic && node.outputs.size() == 1 && (node.inputs.size() == 1 || is_op(node, "Split"))) {
    return pass_through(edit, id);
  }
  if (is_op(node, "Slice")) {
    const auto steps = ints_of(edit.graph(), node, 4, "steps");
    const bool forward = node.inputs.size() < 5 || !node.inputs[4].present() ||
                         (steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s == 1; }));
    return forward && pass_through(edit, id);
  }
  if (is_op(node, "Pad")) {
    const auto pads = ints_of(edit.graph(), node, 1, "pads");
    return pads && std::all_of(pads->begin(), pads->end(), [](int64_t p) { return p == 0; }) && pass_through(edit, id);
  }
  return false;
}

// x + 0, 0 + x, x - 0, x * 1, 1 * x, x / 1, x ^ 1, where the constant does not widen x.
bool drop_neutral(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  const bool add = is_op(node, "Add"), mul = is_op(node, "Mul");
  const bool zero = add || is_op(node, "Sub");
  if (!zero && !mul && !is_op(node, "Div") && !is_op(node, "Pow")) return false;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    if (i == 0 && !add && !mul) continue;
    const Tensor* tensor = edit.constant(node.inputs[i]);
    if (!tensor || !same_type(edit, node.inputs[1 - i], node.outputs[0])) continue;
    if (all_equal(*tensor, zero ? 0.0 : 1.0)) return pass_through(edit, id, 1 - i);
  }
  return false;
}

// x / c as x * (1 / c) where that is exact: c is a power of two, and so is its inverse.
bool divide_by_power_of_two(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Div")) return false;
  const Tensor* divisor = edit.constant(node.inputs[1]);
  if (!divisor || (divisor->dtype() != DType::f32 && divisor->dtype() != DType::f16)) return false;
  const int limit = divisor->dtype() == DType::f32 ? 120 : 13;
  Tensor inverse(divisor->dtype(), divisor->shape());
  for (int64_t i = 0; i < divisor->elements(); ++i) {
    int exponent = 0;
    const double value = load_element(divisor->dtype(), divisor->raw(), i);
    if (std::abs(std::frexp(value, &exponent)) != 0.5 || std::abs(exponent) > limit) return false;
    store_element(inverse.dtype(), inverse.raw(), i, 1 / value);
  }
  const ValueId x = node.inputs[0], y = node.outputs[0];
  edit.replace(y, edit.make(id, "Mul", {x, edit.graph().add_constant(std::move(inverse))}));
  return true;
}

// x ^ 2 as x * x, which is rounded once; Sum of two as Add, which other passes handle.
bool use_plain_op(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  const ValueId y = node.outputs[0];
  if (is_op(node, "Sum") && node.inputs.size() == 2) {
    edit.replace(y, edit.make(id, "Add", {node.inputs[0], node.inputs[1]}));
    return true;
  }
  if (!is_op(node, "Pow") || edit.scalar(node.inputs[1]) != 2.0 || !same_type(edit, node.inputs[0], y)) return false;
  edit.replace(y, edit.make(id, "Mul", {node.inputs[0], node.inputs[0]}));
  return true;
}

bool merge_transposes(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Transpose") || !edit.known(node.inputs[0])) return false;
  const ValueId y = node.outputs[0];
  ValueId x = node.inputs[0];
  std::vector<int> perm = permutation_of(node, edit.shape(x).rank());
  const NodeId before = edit.maker(x, "Transpose");
  if (before.present()) {
    const std::vector<int> first = permutation_of(edit.node(before), static_cast<int>(perm.size()));
    for (int& axis : perm) axis = first[static_cast<size_t>(axis)];
    x = edit.node(before).inputs[0];
  } else if (moves_data(edit.shape(x), perm)) {
    return false;
  }
  if (std::is_sorted(perm.begin(), perm.end())) {
    if (edit.leaves_graph(y) && !edit.maker(x).present()) return false;
    edit.replace(y, x);
  } else {
    edit.replace(y, edit.transpose(id, x, perm));
  }
  return true;
}

// Replaces a chain of views by one Reshape with a constant shape.
bool merge_view_chain(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!node.op->traits.view || node.outputs.size() != 1 || is_op(node, "Identity")) return false;
  if (!edit.known(node.inputs[0]) || !edit.known(node.outputs[0])) return false;
  if (edit.dtype(node.inputs[0]) != edit.dtype(node.outputs[0])) return false;
  const ValueId y = node.outputs[0];
  const Shape shape = edit.shape(y);
  if (shape == edit.shape(node.inputs[0])) return pass_through(edit, id);
  const NodeId before = edit.maker(node.inputs[0]);
  const bool chain = before.present() && edit.node(before).op->traits.view && edit.node(before).outputs.size() == 1 &&
                     edit.known(edit.node(before).inputs[0]) &&
                     edit.dtype(edit.node(before).inputs[0]) == edit.dtype(y);
  const bool plain = is_op(node, "Reshape") && edit.constant(node.inputs[1]);
  if (!chain && plain) return false;
  const ValueId x = chain ? edit.node(before).inputs[0] : node.inputs[0];
  if (shape == edit.shape(x) && edit.leaves_graph(y) && !edit.maker(x).present()) return false;
  edit.replace(y, edit.reshape(id, x, shape));
  return true;
}

// Cast of Cast if the first one is exact.
bool merge_casts(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Cast")) return false;
  const NodeId before = edit.maker(node.inputs[0], "Cast");
  if (!before.present()) return false;
  const ValueId x = edit.node(before).inputs[0];
  const DType from = edit.dtype(x), via = edit.dtype(node.inputs[0]);
  const bool half = from == DType::f16 || from == DType::bf16;
  const bool exact = (half && (via == DType::f32 || via == DType::f64)) || (from == DType::f32 && via == DType::f64) ||
                     (from == DType::i32 && via == DType::i64) || (from == DType::u8 && via == DType::i64);
  if (!exact) return false;
  edit.set_input(id, 0, x);
  return true;
}

// The Concat along the axis that makes the value, if the value has no other reader.
NodeId inner_concat(Edit& edit, ValueId value, int axis) {
  const NodeId inner = edit.maker(value, "Concat");
  if (!inner.present() || !edit.only_reader(value).present() || edit.readers(value).size() != 1) return {};
  if (!edit.known(value)) return {};
  return normalize_axis(edit.node(inner).attrs.integer("axis"), edit.shape(value).rank()) == axis ? inner : NodeId{};
}

// Concat of Concat along one axis, if the inner one has no other reader. Merging starts at the last of a chain, so all
// are merged at once.
bool merge_concats(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Concat") || !edit.known(node.outputs[0])) return false;
  const int axis = normalize_axis(node.attrs.integer("axis"), edit.shape(node.outputs[0]).rank());
  const NodeId next = edit.only_reader(node.outputs[0]);
  if (next.present() && is_op(edit.node(next), "Concat") && inner_concat(edit, node.outputs[0], axis).present() &&
      normalize_axis(edit.node(next).attrs.integer("axis"), edit.shape(node.outputs[0]).rank()) == axis) {
    return false;
  }
  std::vector<ValueId> parts, work(node.inputs.rbegin(), node.inputs.rend());
  while (!work.empty()) {
    const ValueId input = work.back();
    work.pop_back();
    if (const NodeId inner = inner_concat(edit, input, axis); inner.present()) {
      const std::vector<ValueId>& more = edit.node(inner).inputs;
      work.insert(work.end(), more.rbegin(), more.rend());
    } else if (!edit.known(input) || edit.shape(input).elements() > 0) {
      parts.push_back(input);
    }
  }
  if (parts == node.inputs || parts.empty()) return false;
  const ValueId y = node.outputs[0];
  edit.replace(y, edit.make(id, "Concat", parts, {{"axis", int64_t{axis}}}));
  return true;
}

// The zeros that a Pad adds around an image, as the `pads` of a window; empty if it does anything else.
std::optional<std::vector<int64_t>> zeros_around(Edit& edit, NodeId pad) {
  const Node& node = edit.node(pad);
  const auto pads = ints_of(edit.graph(), node, 1, "pads");
  if (!pads || node.attrs.text("mode", "constant") != "constant" || !edit.known(node.inputs[0])) return {};
  if (node.inputs.size() > 3 && node.inputs[3].present()) return {};  // only some axes: rare, not handled
  if (node.inputs.size() > 2 && node.inputs[2].present() && edit.scalar(node.inputs[2]) != 0.0) return {};
  const auto rank = static_cast<size_t>(edit.shape(node.inputs[0]).rank());
  if (rank < 3 || pads->size() != 2 * rank) return {};
  if ((*pads)[0] || (*pads)[1] || (*pads)[rank] || (*pads)[rank + 1]) return {};
  if (std::any_of(pads->begin(), pads->end(), [](int64_t p) { return p < 0; })) return {};
  std::vector<int64_t> around;
  for (size_t i = 2; i < 2 * rank; ++i) {
    if (i < rank || i >= rank + 2) around.push_back((*pads)[i]);
  }
  return around;
}

// Moves zeros around an image into the padding of the convolution or average pool that reads it.
bool pad_into_window(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  const bool average = is_op(node, "AveragePool");
  if ((!is_op(node, "Conv") && !average) || node.attrs.text("auto_pad", "NOTSET") != "NOTSET") return false;
  const ValueId padded = node.inputs[0];
  const NodeId pad = edit.maker(padded, "Pad");
  if (!pad.present() || edit.only_reader(padded) != id || edit.readers(padded).size() != 1) return false;
  const auto around = zeros_around(edit, pad);
  if (!around) return false;
  std::vector<int64_t> sum = node.attrs.integers("pads", std::vector<int64_t>(around->size(), 0));
  if (sum.size() != around->size()) return false;
  if (average) {
    // A mean that counts these zeros must go on counting them; together with pads that are not counted that cannot be
    // expressed.
    const bool own = std::any_of(sum.begin(), sum.end(), [](int64_t p) { return p != 0; });
    if (node.attrs.integer("ceil_mode", 0) != 0 || (own && node.attrs.integer("count_include_pad", 0) == 0))
      return false;
  }
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += (*around)[i];
  const ValueId x = edit.node(pad).inputs[0];
  Attributes& attrs = edit.graph().node(id).attrs;
  attrs.set("pads", sum);
  if (average) attrs.set("count_include_pad", int64_t{1});
  edit.set_input(id, 0, x);
  return true;
}

bool is_softmax(const Node& node) { return is_op(node, "Softmax") || is_op(node, "LogSoftmax"); }

// Reshape, Softmax along the last axis, Reshape back becomes the Softmax alone, if the Reshape kept the last axis.
bool softmax_between_reshapes(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Reshape") || !edit.known(node.outputs[0])) return false;
  const NodeId softmax = edit.maker(node.inputs[0]);
  if (!softmax.present() || !is_softmax(edit.node(softmax)) || edit.only_reader(node.inputs[0]) != id) return false;
  const ValueId flat = edit.node(softmax).inputs[0], y = node.outputs[0];
  const NodeId before = edit.maker(flat, "Reshape");
  if (!before.present() || edit.only_reader(flat) != softmax) return false;
  const ValueId x = edit.node(before).inputs[0];
  if (!edit.known(x) || !(edit.shape(x) == edit.shape(y)) || edit.shape(x).rank() == 0) return false;
  const Shape inner = edit.shape(flat), outer = edit.shape(x);
  const int last = inner.rank() - 1;
  if (normalize_axis(edit.node(softmax).attrs.integer("axis", -1), inner.rank()) != last) return false;
  if (inner[last] != outer[outer.rank() - 1]) return false;
  edit.replace(y, edit.remake(softmax, {x}, {{"axis", int64_t{-1}}}));
  return true;
}

// Transpose, Softmax, Transpose: merges the two transposes, which mostly cancel out.
bool softmax_between_transposes(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_softmax(node) || !edit.known(node.inputs[0])) return false;
  const ValueId moved = node.inputs[0], y = node.outputs[0];
  const NodeId before = edit.maker(moved, "Transpose"), after = edit.only_reader(y);
  if (!before.present() || !after.present() || edit.only_reader(moved) != id) return false;
  if (!is_op(edit.node(after), "Transpose")) return false;
  const int rank = edit.shape(moved).rank();
  const std::vector<int> perm = permutation_of(edit.node(before), rank);
  const int axis = perm[static_cast<size_t>(normalize_axis(node.attrs.integer("axis", -1), rank))];
  const ValueId result = edit.remake(id, {edit.node(before).inputs[0]}, {{"axis", int64_t{axis}}});
  edit.replace(y, edit.transpose(before, result, perm));
  return true;
}

// f(view(x)) as view(f(x)): the activation then follows the node that makes x and can become its epilogue.
bool activation_before_view(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!node.op->traits.elementwise || node.outputs.size() != 1 || is_op(node, "Cast")) return false;
  const ValueId viewed = node.inputs[0], y = node.outputs[0];
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i].present() && !edit.scalar(node.inputs[i])) return false;
  }
  const NodeId view = edit.maker(viewed);
  if (!view.present() || edit.only_reader(viewed) != id || edit.readers(viewed).size() != 1) return false;
  const Node& before = edit.node(view);
  const bool transposes = is_op(before, "Transpose");
  if ((!before.op->traits.view && !transposes) || before.outputs.size() != 1 || before.inputs.empty()) return false;
  if (!same_type(edit, viewed, y) || !edit.known(before.inputs[0]) || !edit.maker(before.inputs[0]).present())
    return false;
  if (edit.dtype(before.inputs[0]) != edit.dtype(viewed)) return false;
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i].present() && edit.shape(node.inputs[i]).rank() > edit.shape(before.inputs[0]).rank())
      return false;
  }
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = before.inputs[0];
  const std::vector<int> perm = transposes ? permutation_of(before, edit.shape(viewed).rank()) : std::vector<int>{};
  const ValueId result = edit.remake(id, inputs, node.attrs);
  edit.replace(y, transposes ? edit.transpose(view, result, perm) : edit.reshape(view, result, edit.shape(y)));
  return true;
}

using Rule = bool (*)(Edit&, NodeId);
constexpr Rule kRules[] = {drop_copy,
                           drop_neutral,
                           divide_by_power_of_two,
                           use_plain_op,
                           merge_transposes,
                           merge_view_chain,
                           merge_casts,
                           merge_concats,
                           concat_sum_of_pads,
                           pad_into_window,
                           softmax_between_reshapes,
                           softmax_between_transposes,
                           activation_before_view,
                           select_by_stride};

// Applies the rules to every node until none of them changes anything.
int apply(std::span<const Rule> rules, Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (int before = -1; before != changes;) {
    before = changes;
    for (const NodeId id : graph.order()) {
      for (const Rule rule : rules) {
        if (graph.erased(id) || graph.node(id).inputs.empty()) break;
        changes += rule(edit, id);
      }
    }
  }
  graph.compact();
  return changes;
}

}  // namespace

int simplify_algebra(Graph& graph) { return apply(kRules, graph); }

int merge_views(Graph& graph) {
  constexpr Rule kViews[] = {merge_transposes, merge_view_chain};
  return apply(kViews, graph);
}

}  // namespace sparkpilot

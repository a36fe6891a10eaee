#include "passes/narrow.h"

#include "ir/axes.h"
#include "ir/launch.h"

namespace sparkpilot {
namespace {

using Result = std::optional<Narrowed>;

// Narrows by the op's axis map.
Result follow(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const NodeProblem types(edit.graph(), id);
  const Problem problem = types.problem();
  Narrowed out;
  out.attrs = node.attrs;
  out.inputs.resize(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const AxisSource source = axis_source(*node.op, problem, 0, pick.axis, i);
    if (source.kind == AxisSource::broadcast) continue;
    if (source.kind != AxisSource::same) return {};
    if (problem.inputs[i].shape[source.axis] > 1) out.inputs[i] = Pick{source.axis, pick.start, pick.count};
  }
  const Traits& traits = node.op->traits;
  out.reshape = traits.view;
  out.saves = !traits.view && !traits.elementwise && !traits.picks;
  return out;
}

// A selection that lies within one of the joined tensors.
Result through_concat(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  Narrowed out;
  out.attrs = node.attrs;
  out.inputs.resize(node.inputs.size());
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

// Rows of a causal mask as a tensor, if they mask anything.
Tensor causal_rows(const Pick& pick, int64_t columns) {
  Tensor mask = Tensor::zeros(DType::boolean, Shape{pick.count, columns});
  for (int64_t i = 0; i < pick.count; ++i) {
    for (int64_t j = 0; j < columns && j <= pick.start + i; ++j)
      mask.data<bool>()[static_cast<size_t>(i * columns + j)] = true;
  }
  return mask;
}

// Narrows the queries of causal attention: for a part of the queries the mask is no longer causal.
Result causal_queries(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  const int rank = edit.shape(node.inputs[0]).rank();
  const bool other = node.inputs.size() > 3 || node.attrs.integer("left_window_size", -1) >= 0 ||
                     node.attrs.integer("right_window_size", -1) >= 0;
  if (other || pick.axis != rank - 2 || node.attrs.integer("is_causal", 0) == 0) return {};
  Narrowed out;
  out.attrs = node.attrs;
  out.attrs.erase("is_causal");
  out.inputs.resize(node.inputs.size());
  out.inputs[0] = pick;
  out.saves = true;
  const int64_t keys = edit.shape(node.inputs[1])[rank - 2];
  if (pick.start < keys - 1) out.mask = causal_rows(pick, keys);
  return out;
}

}  // namespace

std::optional<Narrowed> narrow_node(Edit& edit, NodeId id, const Pick& pick) {
  const Node& node = edit.node(id);
  if (node.outputs.size() != 1 || node.inputs.empty() || !edit.known(node.outputs[0])) return {};
  for (const ValueId input : node.inputs) {
    if (input.present() && !edit.known(input)) return {};
  }
  if (Result out = follow(edit, id, pick)) return out;
  if (is_op(node, "Concat")) return through_concat(edit, id, pick);
  return node.op->traits.attention ? causal_queries(edit, id, pick) : Result{};
}

}  // namespace sparkpilot

#include "passes/strided.h"

#include <algorithm>

namespace sparkpilot {
namespace {

constexpr int kMaxChain = 6;

// A rectangular selection from a dense tensor: (size, stride) for each axis, and the offset of the first element.
struct Strided {
  struct Axis {
    int64_t size, stride;
  };
  std::vector<Axis> axes;
  int64_t offset = 0;

  static Strided dense(const Shape& shape) {
    Strided out;
    const auto strides = shape.strides();
    for (int i = 0; i < shape.rank(); ++i) out.axes.push_back({shape[i], strides[static_cast<size_t>(i)]});
    return out;
  }
};

// The same elements in the same order with another shape, if strides can express it.
std::optional<Strided> reshaped(const Strided& in, const Shape& shape) {
  // Merge axes that are contiguous in memory; leave out axes of size 1.
  std::vector<Strided::Axis> merged;
  for (const Strided::Axis& axis : in.axes) {
    if (axis.size == 1) continue;
    if (!merged.empty() && merged.back().stride == axis.size * axis.stride) {
      merged.back() = {merged.back().size * axis.size, axis.stride};
    } else {
      merged.push_back(axis);
    }
  }
  Strided out;
  out.offset = in.offset;
  out.axes.resize(static_cast<size_t>(shape.rank()));
  // From the innermost: split each merged axis into the wanted sizes.
  int64_t rest = 1, stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int64_t size = shape[i];
    if (rest == 1 && size > 1) {
      if (merged.empty()) return {};
      rest = merged.back().size;
      stride = merged.back().stride;
      merged.pop_back();
    }
    if (rest % size != 0) return {};
    out.axes[static_cast<size_t>(i)] = {size, stride};
    rest /= size;
    stride *= size;
  }
  if (rest != 1 || !merged.empty()) return {};
  return out;
}

// A Gather of one index, which drops its axis.
bool apply_gather(Edit& edit, const Node& node, Strided& s) {
  const Tensor* index = edit.constant(node.inputs[1]);
  if (!index || index->shape().rank() != 0) return false;
  const auto axis = static_cast<size_t>(normalize_axis(node.attrs.integer("axis", 0), static_cast<int>(s.axes.size())));
  int64_t at = index->to_ints()[0];
  if (at < 0) at += s.axes[axis].size;
  if (at < 0 || at >= s.axes[axis].size) return false;
  s.offset += at * s.axes[axis].stride;
  s.axes.erase(s.axes.begin() + static_cast<std::ptrdiff_t>(axis));
  return true;
}

bool apply(Edit& edit, NodeId id, Strided& s) {
  const Node& node = edit.node(id);
  if (is_op(node, "Gather")) return apply_gather(edit, node, s);
  if (is_op(node, "Transpose")) {
    Strided out;
    out.offset = s.offset;
    for (const int axis : permutation_of(node, static_cast<int>(s.axes.size()))) {
      out.axes.push_back(s.axes[static_cast<size_t>(axis)]);
    }
    s = out;
    return true;
  }
  const std::optional<Strided> out = reshaped(s, edit.shape(node.outputs[0]));
  if (out) s = *out;
  return out.has_value();
}

// The chain of views and transposes above a node, outermost first; it ends at the first value that another op makes.
std::vector<NodeId> chain_above(Edit& edit, NodeId id, ValueId& source) {
  std::vector<NodeId> chain{id};
  source = edit.node(id).inputs[0];
  while (chain.size() < kMaxChain) {
    const NodeId maker = edit.maker(source);
    if (!maker.present()) break;
    const Node& node = edit.node(maker);
    const bool view = node.op->traits.view && node.outputs.size() == 1 && edit.known(node.inputs[0]);
    if (!view && !is_op(node, "Transpose")) break;
    chain.push_back(maker);
    source = node.inputs[0];
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

}  // namespace

bool select_by_stride(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Gather") || !edit.known(node.outputs[0]) || !edit.known(node.inputs[0])) return false;
  ValueId source;
  const std::vector<NodeId> chain = chain_above(edit, id, source);
  if (chain.size() < 2 || !edit.known(source) || edit.shape(source).elements() == 0) return false;
  const ValueId y = node.outputs[0];
  const Shape from = edit.shape(source), to = edit.shape(y);
  if (from.rank() != to.rank()) return false;
  Strided s = Strided::dense(from);
  for (const NodeId step : chain) {
    if (edit.dtype(edit.node(step).inputs[0]) != edit.dtype(y) || !apply(edit, step, s)) return false;
  }
  // The selection as a Slice of the source: the stride of each axis is a multiple of the source's stride.
  std::vector<int64_t> axes, starts, ends, steps;
  const auto strides = from.strides();
  int64_t offset = s.offset;
  for (int i = 0; i < from.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t start = offset / strides[at];
    offset -= start * strides[at];
    const int64_t size = to[i], step = size == 1 ? 1 : s.axes[at].stride / strides[at];
    if (size > 1 && (step < 1 || s.axes[at].stride % strides[at] != 0)) return false;
    if (start + (size - 1) * step >= from[i]) return false;
    if (size == from[i]) continue;
    axes.push_back(i);
    starts.push_back(start);
    ends.push_back(start + (size - 1) * step + 1);
    steps.push_back(step);
  }
  if (axes.empty()) return false;
  Graph& graph = edit.graph();
  const auto ints = [&](const std::vector<int64_t>& v) { return graph.add_constant(Tensor::ints(v)); };
  edit.replace(y, edit.make(id, "Slice", {source, ints(starts), ints(ends), ints(axes), ints(steps)}));
  return true;
}

}  // namespace sparkpilot

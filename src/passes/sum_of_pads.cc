#include "passes/sum_of_pads.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace sparkpilot {
namespace {

// An operand of the sum; `size` > 0: the Pad of `value`, which fills [first, first + size) of the axis.
struct Operand {
  ValueId operand, value = {};
  int axis = -1;
  int64_t first = 0, size = 0;
};

// Whether the node adds two values of the type of their sum.
bool adds_alike(Edit& edit, NodeId id) {
  const Node& node = edit.node(id);
  if (!is_op(node, "Add") || !edit.known(node.outputs[0])) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId x) {
    return edit.known(x) && edit.dtype(x) == edit.dtype(node.outputs[0]) &&
           edit.shape(x) == edit.shape(node.outputs[0]);
  });
}

// Whether one Add, and nothing else, reads the value, once.
bool only_added(Edit& edit, ValueId value) {
  const NodeId reader = edit.only_reader(value);
  return reader.present() && edit.readers(value).size() == 1 && adds_alike(edit, reader);
}

Operand operand_of(Edit& edit, ValueId value) {
  Operand out{value};
  const NodeId id = edit.maker(value, "Pad");
  if (!id.present() || edit.readers(value).size() != 1 || edit.leaves_graph(value)) return out;
  const Node& node = edit.node(id);
  const auto pads = ints_of(edit.graph(), node, 1, "pads");
  const auto rank = static_cast<size_t>(edit.shape(value).rank());
  if (!pads || pads->size() != 2 * rank || node.attrs.text("mode", "constant") != "constant") return out;
  if (node.inputs.size() > 3 && node.inputs[3].present()) return out;
  if (node.inputs.size() > 2 && node.inputs[2].present() && edit.scalar(node.inputs[2]) != 0.0) return out;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = (*pads)[axis], after = (*pads)[axis + rank];
    if (before == 0 && after == 0) continue;
    if (before < 0 || after < 0 || out.axis >= 0) return {value};
    out.axis = static_cast<int>(axis);
    out.first = before;
  }
  if (out.axis < 0) return out;
  out.value = node.inputs[0];
  out.size = edit.shape(out.value)[out.axis];
  return out;
}

// Pads along one axis, each group of which fills ranges that do not overlap, in their order.
std::vector<std::vector<Operand>> side_by_side(std::vector<Operand> pads) {
  std::ranges::stable_sort(pads, {}, &Operand::first);
  std::vector<std::vector<Operand>> groups;
  std::set<std::pair<int64_t, size_t>> ends;  // of groups
  for (const Operand& each : pads) {
    size_t group = groups.size();
    // The group whose end is nearest before it, so that gaps are small.
    const auto behind = ends.upper_bound({each.first, groups.size()});
    if (behind != ends.begin()) {
      group = std::prev(behind)->second;
      ends.erase(std::prev(behind));
    } else {
      groups.emplace_back();
    }
    groups[group].push_back(each);
    ends.emplace(each.first + each.size, group);
  }
  return groups;
}

// The bytes of zeros between and beside them.
int64_t zero_bytes(const std::vector<Operand>& group, const Shape& whole, DType dtype) {
  int64_t gaps = whole[group[0].axis];
  for (const Operand& each : group) gaps -= each.size;
  return storage_bytes(dtype, whole.elements() / whole[group[0].axis] * gaps);
}

// Whether one Concat of them takes less than their sum: at least two, and few zeros, which become constants.
bool pays(const std::vector<Operand>& group, const Shape& whole, DType dtype) {
  constexpr int64_t kFew = 1 << 16;
  const int64_t zeros = zero_bytes(group, whole, dtype);
  return group.size() > 1 && (zeros <= kFew || 2 * zeros <= storage_bytes(dtype, whole.elements()));
}

}  // namespace

bool concat_sum_of_pads(Edit& edit, NodeId id) {
  if (!adds_alike(edit, id) || only_added(edit, edit.node(id).outputs[0])) return false;
  const ValueId y = edit.node(id).outputs[0];
  std::vector<ValueId> others;
  std::map<int, std::vector<Operand>> pads;  // by axis
  std::vector<ValueId> work(edit.node(id).inputs.rbegin(), edit.node(id).inputs.rend());
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    if (const NodeId maker = edit.maker(value); maker.present() && only_added(edit, value) && adds_alike(edit, maker)) {
      work.insert(work.end(), edit.node(maker).inputs.rbegin(), edit.node(maker).inputs.rend());
    } else if (const Operand operand = operand_of(edit, value); operand.size > 0) {
      pads[operand.axis].push_back(operand);
    } else {
      others.push_back(value);
    }
  }
  const Shape whole = edit.shape(y);
  const DType dtype = edit.dtype(y);
  std::vector<std::vector<Operand>> groups;
  int64_t zeros = 0;
  for (auto& [axis, of_axis] : pads) {
    for (std::vector<Operand>& group : side_by_side(std::move(of_axis))) {
      if (pays(group, whole, dtype)) zeros += zero_bytes(group, whole, dtype);
      groups.push_back(std::move(group));
    }
  }
  // All zeros together take no more than the sum does: else groups without any are put together.
  const bool with_zeros = zeros <= storage_bytes(dtype, whole.elements());
  std::vector<ValueId> sums;
  for (const std::vector<Operand>& group : groups) {
    if (!pays(group, whole, dtype) || (!with_zeros && zero_bytes(group, whole, dtype) > 0)) {
      for (const Operand& each : group) others.push_back(each.operand);
      continue;
    }
    const int axis = group[0].axis;
    std::vector<ValueId> parts;
    int64_t end = 0;
    const auto add_zeros = [&](int64_t size) {
      if (size == 0) return;
      Shape shape = whole;
      shape.set(axis, size);
      parts.push_back(edit.graph().add_constant(Tensor::zeros(dtype, shape)));
    };
    for (const Operand& each : group) {
      add_zeros(each.first - end);
      parts.push_back(each.value);
      end = each.first + each.size;
    }
    add_zeros(whole[axis] - end);
    sums.push_back(edit.make(id, "Concat", parts, {{"axis", int64_t{axis}}}));
  }
  if (sums.empty()) return false;
  sums.insert(sums.end(), others.begin(), others.end());
  ValueId sum = sums[0];
  for (size_t i = 1; i < sums.size(); ++i) sum = edit.make(id, "Add", {sum, sums[i]});
  edit.replace(y, sum);
  return true;
}

}  // namespace sparkpilot

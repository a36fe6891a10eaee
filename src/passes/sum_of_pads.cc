#include "passes/sum_of_pads.h"

#include <algorithm>

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

}  // namespace

bool concat_sum_of_pads(Edit& edit, NodeId id) {
  if (!adds_alike(edit, id) || only_added(edit, edit.node(id).outputs[0])) return false;
  const ValueId y = edit.node(id).outputs[0];
  std::vector<Operand> operands, side_by_side;
  std::vector<ValueId> work(edit.node(id).inputs.rbegin(), edit.node(id).inputs.rend());
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    if (const NodeId maker = edit.maker(value); maker.present() && only_added(edit, value) && adds_alike(edit, maker)) {
      work.insert(work.end(), edit.node(maker).inputs.rbegin(), edit.node(maker).inputs.rend());
    } else {
      operands.push_back(operand_of(edit, value));
    }
  }
  const auto pad = std::ranges::find_if(operands, [](const Operand& each) { return each.size > 0; });
  if (pad == operands.end()) return false;
  const int axis = pad->axis;
  std::ranges::copy_if(operands, std::back_inserter(side_by_side),
                       [&](const Operand& each) { return each.size > 0 && each.axis == axis; });
  std::ranges::stable_sort(side_by_side, {}, &Operand::first);
  int64_t end = 0;
  std::erase_if(side_by_side, [&](const Operand& each) {
    if (each.first < end) return true;
    end = each.first + each.size;
    return false;
  });
  if (side_by_side.size() < 2) return false;

  std::vector<ValueId> parts;
  const Shape whole = edit.shape(y);
  const auto add_zeros = [&](int64_t size) {
    if (size == 0) return;
    Shape shape = whole;
    shape.set(axis, size);
    parts.push_back(edit.graph().add_constant(Tensor::zeros(edit.dtype(y), shape)));
  };
  end = 0;
  for (const Operand& each : side_by_side) {
    add_zeros(each.first - end);
    parts.push_back(each.value);
    end = each.first + each.size;
  }
  add_zeros(whole[axis] - end);
  ValueId sum = edit.make(id, "Concat", parts, {{"axis", int64_t{axis}}});
  for (const Operand& each : operands) {
    const bool joined = std::ranges::find(side_by_side, each.operand, &Operand::operand) != side_by_side.end();
    if (!joined) sum = edit.make(id, "Add", {sum, each.operand});
  }
  edit.replace(y, sum);
  return true;
}

}  // namespace sparkpilot

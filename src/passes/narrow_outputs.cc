// Avoids computing what no output needs: moves a Slice, or a Gather of one index, up through the ops before it, as long
// as that makes a matrix product, norm or similar op smaller.
#include <algorithm>
#include <map>
#include <tuple>

#include "ir/infer.h"
#include "passes/narrow.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

constexpr int kMaxDepth = 64;  // a selection is followed up through at most this many nodes

struct Selection {
  ValueId source;
  Pick pick;
};

class Narrower {
 public:
  explicit Narrower(Graph& graph) : edit_(graph) {}

  int run() {
    for (const NodeId id : edit_.graph().order()) {
      if (const auto selection = selection_of(id)) remember(id, *selection);
    }
    int changes = 0;
    while (!work_.empty()) {
      const NodeId id = work_.back();
      work_.pop_back();
      if (!edit_.graph().erased(id)) changes += move_up(id);
    }
    return changes;
  }

 private:
  std::optional<Selection> selection_of(NodeId id);
  void remember(NodeId id, const Selection& selection) {
    work_.push_back(id);
    if (is_op(edit_.node(id), "Slice")) slices_.emplace(key(selection), id);
  }
  using Key = std::tuple<int32_t, int, int64_t, int64_t>;
  static Key key(const Selection& s) { return {s.source.index, s.pick.axis, s.pick.start, s.pick.count}; }
  ValueId slice_of(NodeId like, ValueId value, const Pick& pick);
  double flops(NodeId id);
  double saving(ValueId value, const Pick& pick, NodeId reader, int depth);
  bool move_up(NodeId id);
  bool separate(NodeId split, size_t output);
  ValueId columns(NodeId like, ValueId value, int axis, int64_t start, int64_t count);

  Edit edit_;
  std::vector<NodeId> work_;
  std::map<Key, NodeId> slices_;
};

std::optional<Selection> Narrower::selection_of(NodeId id) {
  const Node& node = edit_.node(id);
  if (!is_op(node, "Slice") && !is_op(node, "Gather")) return {};
  if (!edit_.known(node.inputs[0]) || !edit_.known(node.outputs[0]) || edit_.constant(node.inputs[0])) return {};
  const Shape from = edit_.shape(node.inputs[0]), to = edit_.shape(node.outputs[0]);
  if (from.elements() == 0 || to.elements() == 0) return {};
  const Graph& graph = edit_.graph();
  if (is_op(node, "Gather")) {
    const Tensor* index = edit_.constant(node.inputs[1]);
    if (!index || index->elements() != 1 || index->shape().rank() > 1) return {};
    const int axis = normalize_axis(node.attrs.integer("axis", 0), from.rank());
    const int64_t at = index->to_ints()[0];
    const int64_t start = at < 0 ? at + from[axis] : at;
    if (start < 0 || start >= from[axis] || from[axis] == 1) return {};
    return Selection{node.inputs[0], {axis, start, 1}};
  }
  const auto starts = ints_of(graph, node, 1, "starts");
  if (!starts || !ints_of(graph, node, 2, "ends")) return {};
  const auto given = ints_of(graph, node, 3, "axes");
  if (!given && node.inputs.size() > 3 && node.inputs[3].present()) return {};
  const bool stepped = node.inputs.size() > 4 && node.inputs[4].present();
  const auto steps = ints_of(graph, node, 4, "");
  if (stepped && (!steps || std::any_of(steps->begin(), steps->end(), [](int64_t s) { return s != 1; }))) return {};
  std::optional<Selection> out;
  for (size_t i = 0; i < starts->size(); ++i) {
    const int axis = given ? normalize_axis((*given)[i], from.rank()) : static_cast<int>(i);
    if (from[axis] == to[axis]) continue;
    if (out) return {};
    const int64_t start = (*starts)[i] < 0 ? (*starts)[i] + from[axis] : (*starts)[i];
    out = Selection{node.inputs[0], {axis, std::max<int64_t>(start, 0), to[axis]}};
  }
  return out;
}

ValueId Narrower::slice_of(NodeId like, ValueId value, const Pick& pick) {
  const auto known = slices_.find(key({value, pick}));
  if (known != slices_.end() && !edit_.graph().erased(known->second)) {
    work_.push_back(known->second);
    return edit_.node(known->second).outputs[0];
  }
  const ValueId result = columns(like, value, pick.axis, pick.start, pick.count);
  if (const NodeId made = edit_.maker(result); made.present()) {
    slices_[key({value, pick})] = made;
    work_.push_back(made);
  }
  return result;
}

ValueId Narrower::columns(NodeId like, ValueId value, int axis, int64_t start, int64_t count) {
  Graph& graph = edit_.graph();
  const auto one = [&](int64_t v) { return graph.add_constant(Tensor::ints({v})); };
  return edit_.make(like, "Slice", {value, one(start), one(start + count), one(axis), one(1)});
}

double Narrower::flops(NodeId id) {
  const Node& node = edit_.node(id);
  std::vector<TensorType> inputs, outputs;
  const auto type = [&](ValueId v) {
    return v.present() ? TensorType{edit_.dtype(v), edit_.shape(v), true} : TensorType{};
  };
  for (const ValueId v : node.inputs) inputs.push_back(type(v));
  for (const ValueId v : node.outputs) outputs.push_back(type(v));
  return cost_of(*node.op, {.node = &node, .inputs = inputs, .outputs = outputs, .constants = {}}).flops;
}

// FLOPs saved if `reader`, the only reader, needs only a selection of the value.
double Narrower::saving(ValueId value, const Pick& pick, NodeId reader, int depth) {
  const NodeId id = edit_.maker(value);
  if (depth == 0 || !id.present() || edit_.only_reader(value) != reader) return 0;
  const double rest = 1 - static_cast<double>(pick.count) / static_cast<double>(edit_.shape(value)[pick.axis]);
  if (is_op(edit_.node(id), "Split")) return 1;  // decided when the Split has been separated
  const auto narrowed = narrow_node(edit_, id, pick);
  if (!narrowed) return 0;
  double total = narrowed->saves ? rest * flops(id) : 0;
  for (size_t i = 0; i < narrowed->inputs.size(); ++i) {
    if (narrowed->inputs[i]) total += saving(edit_.node(id).inputs[i], *narrowed->inputs[i], id, depth - 1);
  }
  return total;
}

bool Narrower::move_up(NodeId slice) {
  const auto selection = selection_of(slice);
  if (!selection) return false;
  const auto [source, pick] = *selection;
  const NodeId split = edit_.maker(source, "Split");
  if (split.present() && edit_.only_reader(source) == slice) {
    const std::vector<ValueId>& parts = edit_.node(split).outputs;
    if (!separate(split, static_cast<size_t>(std::find(parts.begin(), parts.end(), source) - parts.begin())))
      return false;
    work_.push_back(slice);
    return true;
  }
  if (saving(source, pick, slice, kMaxDepth) <= 0) return false;
  const NodeId id = edit_.maker(source);
  const Narrowed narrowed = *narrow_node(edit_, id, pick);
  std::vector<ValueId> inputs = edit_.node(id).inputs;
  ValueId result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!narrowed.inputs[i]) continue;
    inputs[i] = slice_of(id, inputs[i], *narrowed.inputs[i]);
    if (narrowed.through) result = inputs[i];
  }
  if (narrowed.reshape) {
    result = edit_.reshape(id, inputs[0], edit_.shape(source).with(pick.axis, pick.count));
  } else if (!narrowed.through) {
    if (narrowed.mask) {
      inputs.resize(4);
      inputs[3] = edit_.graph().add_constant(*narrowed.mask);
    }
    result = edit_.remake(id, inputs, narrowed.attrs);
  }
  const ValueId y = edit_.node(slice).outputs[0];
  edit_.replace(y, edit_.reshape(slice, result, edit_.shape(y)));
  return true;
}

// Split of x W + b: makes the columns of one part a separate product, with their part of the weights, so that it can be
// narrowed without the others. Adjacent other parts stay together.
bool Narrower::separate(NodeId split, size_t output) {
  const ValueId whole = edit_.node(split).inputs[0];
  const std::vector<ValueId> parts = edit_.node(split).outputs;
  if (!edit_.known(whole) || edit_.only_reader(whole) != split || (output != 0 && output + 1 != parts.size()))
    return false;
  const Shape shape = edit_.shape(whole);
  const int axis = normalize_axis(edit_.node(split).attrs.integer("axis", 0), shape.rank());
  if (axis != shape.rank() - 1) return false;
  NodeId product = edit_.maker(whole);
  ValueId bias;
  if (const NodeId add = edit_.maker(whole, "Add"); add.present()) {
    const std::vector<ValueId>& operands = edit_.node(add).inputs;
    const size_t constant = edit_.constant(operands[0]) ? 0 : 1;
    bias = operands[constant];
    if (!edit_.constant(bias) || edit_.only_reader(operands[1 - constant]) != add) return false;
    const Shape of_bias = edit_.shape(bias);
    if (of_bias.rank() < 1 || of_bias.elements() != shape[axis] || of_bias[of_bias.rank() - 1] != shape[axis])
      return false;
    product = edit_.maker(operands[1 - constant]);
  }
  if (!product.present() || !is_op(edit_.node(product), "MatMul")) return false;
  const ValueId x = edit_.node(product).inputs[0], weights = edit_.node(product).inputs[1];
  if (!edit_.constant(weights) || edit_.shape(weights).rank() != 2) return false;

  const auto range = [&](int64_t start, int64_t count) {
    ValueId y = edit_.remake(product, {x, columns(product, weights, 1, start, count)}, {});
    if (bias.present()) {
      const int last = edit_.shape(bias).rank() - 1;
      y = edit_.make(product, "Add", {y, columns(product, bias, last, start, count)});
    }
    return y;
  };
  const int64_t size = edit_.shape(parts[output])[axis];
  const ValueId own = range(output == 0 ? 0 : shape[axis] - size, size);
  const ValueId rest = range(output == 0 ? size : 0, shape[axis] - size);
  std::vector<int64_t> sizes;
  std::vector<ValueId> others;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == output) continue;
    sizes.push_back(edit_.shape(parts[i])[axis]);
    others.push_back(parts[i]);
  }
  if (others.size() == 1) {
    edit_.replace(others[0], rest);
  } else {
    Builder builder(edit_.graph(), edit_.node(split).name);
    const std::vector<ValueId> made = builder.add_many("Split", {rest, builder.ints(sizes)}, {{"axis", int64_t{axis}}},
                                                       static_cast<int>(sizes.size()));
    for (size_t i = 0; i < made.size(); ++i) edit_.replace(others[i], made[i]);
  }
  edit_.replace(parts[output], own);
  return true;
}

}  // namespace

int narrow_outputs(Graph& graph) {
  int changes = Narrower(graph).run();
  Edit edit(graph);
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += attend_without_keys(edit, id);
  }
  graph.compact();
  return changes;
}

}  // namespace sparkpilot

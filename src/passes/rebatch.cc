#include "passes/rebatch.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "ir/axes.h"
#include "ir/infer.h"
#include "ir/launch.h"

namespace sparkpilot {
namespace {

constexpr int64_t kMaxNodes = 1'000'000;
[[noreturn]] void fail_too_many(int64_t batch) { fail("a batch of {} needs more than {} nodes", batch, kMaxNodes); }

// What a value of the graph for one entry has become in the graph for several.
struct Entries {
  ValueId shared = {};   // all entries concatenated along `axis`
  ValueId stacked = {};  // one entry after the other along `axis`
  int axis = -1;
  std::vector<ValueId> apart = {};  // one value for each entry
  bool is_shared() const { return shared.present(); }
};

class Rebatch {
 public:
  Rebatch(const Graph& one, int64_t batch) : one_(one), batch_(batch), builder_(many_) {}

  Graph run() {
    many_.name = one_.name;
    many_.producer = one_.producer;
    many_.opsets = one_.opsets;
    many_.metadata = one_.metadata;
    for (const ValueId id : one_.inputs()) add_input(id);
    for (const NodeId id : one_.order()) add_node(id);
    for (const Graph::Output& output : one_.outputs()) add_output(output);
    return std::move(many_);
  }

 private:
  void add_input(ValueId id);
  void add_output(const Graph::Output& output);
  void add_node(NodeId id);
  void once(const Node& node);
  bool stack(NodeId id);
  bool stack_view(NodeId id);
  void repeat(NodeId id);
  std::optional<int> stacked_axis(const Node& node, const Problem& problem, size_t output);

  const Shape& shape(ValueId id) const { return *one_.value(id).shape; }
  bool known(ValueId id) const { return one_.value(id).shape.has_value(); }
  Entries& entries(ValueId id);
  ValueId stacked(ValueId id, int axis);
  const std::vector<ValueId>& apart(ValueId id);
  std::vector<ValueId> make(const Node& node, std::vector<ValueId> inputs);

  const Graph& one_;
  int64_t batch_;
  Graph many_;
  Builder builder_;
  std::unordered_map<int32_t, Entries> entries_;  // by value of `one_`
};

void Rebatch::add_input(ValueId id) {
  const Value& input = one_.value(id);
  if (!input.shape) fail("input \"{}\" has open dimensions: a batch needs their sizes", input.name);
  const bool batched = input.shape->rank() > 0 && (*input.shape)[0] == 1;
  const ValueId made = many_.add_input(input.name, input.dtype, batched ? input.shape->with(0, batch_) : *input.shape);
  entries_[id.index] = batched ? Entries{.stacked = made, .axis = 0} : Entries{.shared = made};
}

// Constants are added to the new graph on first use.
Entries& Rebatch::entries(ValueId id) {
  const auto found = entries_.find(id.index);
  if (found != entries_.end()) return found->second;
  const Value& value = one_.value(id);
  if (value.kind != ValueKind::constant) fail_internal("value \"{}\" is read before it is made", value.name);
  return entries_[id.index] = Entries{.shared = many_.add_constant(value.constant, value.name)};
}

std::vector<ValueId> Rebatch::make(const Node& node, std::vector<ValueId> inputs) {
  if (many_.node_count() > kMaxNodes) fail_too_many(batch_);
  const NodeId id =
      many_.add_node(*node.op, std::move(inputs), node.attrs, static_cast<int>(node.outputs.size()), node.name);
  infer_node(many_, id);
  return many_.node(id).outputs;
}

const std::vector<ValueId>& Rebatch::apart(ValueId id) {
  Entries& e = entries(id);
  if (!e.apart.empty()) return e.apart;
  if (batch_ > kMaxNodes) fail_too_many(batch_);
  if (e.is_shared()) {
    e.apart.assign(static_cast<size_t>(batch_), e.shared);
    return e.apart;
  }
  const std::vector<int64_t> sizes(static_cast<size_t>(batch_), shape(id)[e.axis]);
  e.apart = builder_.add_many("Split", {e.stacked, builder_.ints(sizes)}, {{"axis", int64_t{e.axis}}},
                              static_cast<int>(batch_));
  return e.apart;
}

// The entries of a value that has an axis `axis`, concatenated along it.
ValueId Rebatch::stacked(ValueId id, int axis) {
  Entries& e = entries(id);
  if (e.stacked.present() && e.axis == axis) return e.stacked;
  const std::vector<ValueId> parts = apart(id);
  const ValueId made = builder_.add("Concat", parts, {{"axis", int64_t{axis}}});
  if (!e.stacked.present() && !e.is_shared()) e.stacked = made, e.axis = axis;
  return made;
}

void Rebatch::add_output(const Graph::Output& output) {
  if (!known(output.value)) fail("output \"{}\" has a shape that depends on data: it cannot have a batch", output.name);
  if (shape(output.value).rank() == 0) fail("output \"{}\" is a single number: it cannot have a batch", output.name);
  many_.add_output(stacked(output.value, 0), output.name);
}

void Rebatch::once(const Node& node) {
  std::vector<ValueId> inputs;
  for (const ValueId input : node.inputs) inputs.push_back(input.present() ? entries(input).shared : ValueId{});
  const std::vector<ValueId> outputs = make(node, std::move(inputs));
  for (size_t i = 0; i < outputs.size(); ++i) entries_[node.outputs[i].index] = Entries{.shared = outputs[i]};
}

// The axis along which an output is stacked when its inputs are; empty if there is none.
std::optional<int> Rebatch::stacked_axis(const Node& node, const Problem& problem, size_t output) {
  const Shape& y = problem.outputs[output].shape;
  for (int axis = 0; axis < y.rank(); ++axis) {
    const auto fits = [&](size_t i) {
      if (!node.inputs[i].present()) return true;
      const AxisSource source = axis_source(*node.op, problem, static_cast<int>(output), axis, i);
      const Entries& e = entries(node.inputs[i]);
      if (e.is_shared() && source.kind == AxisSource::broadcast) return true;
      // Along the axis, an entry must begin at the same index in the input as in the output.
      if (source.kind != AxisSource::same || shape(node.inputs[i])[source.axis] != y[axis]) return false;
      return e.is_shared() || !e.stacked.present() || e.axis == source.axis;
    };
    bool all = true;
    for (size_t i = 0; all && i < node.inputs.size(); ++i) all = fits(i);
    if (all) return axis;
  }
  return {};
}

// A view of stacked entries is a stacked view if the same number of elements comes before the axis.
bool Rebatch::stack_view(NodeId id) {
  const Node& node = one_.node(id);
  if (!entries(node.inputs[0]).stacked.present()) return false;
  const Entries& e = entries(node.inputs[0]);
  const Shape &from = shape(node.inputs[0]), &to = shape(node.outputs[0]);
  for (int axis = 0; axis < to.rank(); ++axis) {
    if (to.elements(0, axis) != from.elements(0, e.axis)) continue;
    const Shape target = to.with(axis, to[axis] * batch_);
    const ValueId y = builder_.add("Reshape", {e.stacked, builder_.ints(target.dims())}, {{"allowzero", int64_t{1}}});
    entries_[node.outputs[0].index] = Entries{.stacked = y, .axis = axis};
    return true;
  }
  return false;
}

// Adds the node on stacked entries; false if that is not possible.
bool Rebatch::stack(NodeId id) {
  const Node& node = one_.node(id);
  if (node.op->traits.view) return stack_view(id);
  const NodeProblem types(one_, id);
  const Problem problem = types.problem();
  std::vector<int> axes;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const std::optional<int> axis = stacked_axis(node, problem, o);
    if (!axis) return false;
    axes.push_back(*axis);
  }
  // Outputs may be stacked along several axes, an input along one only.
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const AxisSource first = axis_source(*node.op, problem, 0, axes[0], i);
    for (size_t o = 1; o < axes.size(); ++o) {
      const AxisSource other = axis_source(*node.op, problem, static_cast<int>(o), axes[o], i);
      if (other.kind != first.kind || other.axis != first.axis) return false;
    }
  }
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].present()) {
      inputs.emplace_back();
      continue;
    }
    const AxisSource source = axis_source(*node.op, problem, 0, axes[0], i);
    // An input that broadcasts anyway need not be repeated for every entry.
    const bool repeats =
        node.op->traits.elementwise && source.kind == AxisSource::same && shape(node.inputs[i])[source.axis] == 1;
    const bool whole = entries(node.inputs[i]).is_shared() && (source.kind == AxisSource::broadcast || repeats);
    inputs.push_back(whole ? entries(node.inputs[i]).shared : stacked(node.inputs[i], source.axis));
  }
  const std::vector<ValueId> outputs = make(node, std::move(inputs));
  for (size_t o = 0; o < outputs.size(); ++o) {
    const Shape& y = shape(node.outputs[o]);
    const auto& got = many_.value(outputs[o]).shape;
    if (!got || !(*got == y.with(axes[o], y[axes[o]] * batch_))) {
      fail_internal("the axis map of {} is wrong: output {} of a batch of {} is {}, of one entry {}", node.op->name, o,
                    batch_, got ? got->str() : "[?]", y.str());
    }
    entries_[node.outputs[o].index] = Entries{.stacked = outputs[o], .axis = axes[o]};
  }
  return true;
}

// Adds the node once for each entry.
void Rebatch::repeat(NodeId id) {
  const Node& node = one_.node(id);
  for (const ValueId output : node.outputs) entries_[output.index] = {};
  for (size_t at = 0; at < static_cast<size_t>(batch_); ++at) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.present() ? apart(input)[at] : ValueId{});
    const std::vector<ValueId> outputs = make(node, std::move(inputs));
    for (size_t o = 0; o < outputs.size(); ++o) entries_[node.outputs[o].index].apart.push_back(outputs[o]);
  }
}

void Rebatch::add_node(NodeId id) {
  const Node& node = one_.node(id);
  const auto shared = [&](ValueId input) { return !input.present() || entries(input).is_shared(); };
  if (std::all_of(node.inputs.begin(), node.inputs.end(), shared)) return once(node);
  const bool types_known =
      std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return known(v); }) &&
      std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return !v.present() || known(v); });
  if (!types_known || !stack(id)) repeat(id);
}

}  // namespace

Graph rebatch(Graph graph, int64_t batch, const PassOptions& options) {
  if (batch < 1) fail("batch: expected at least 1, got {}", batch);
  // Without passes that would turn a Transpose of an axis of size 1 into a view of another axis; all passes run on the
  // result anyway.
  PassOptions some = options;
  some.off.insert({"cse", "simplify", "recognise"});
  prepare(graph, some);
  for (const NodeId id : graph.order()) {
    if (!graph.node(id).op->traits.pure)
      fail("node \"{}\" is random: a batch would need other numbers", graph.label(id));
  }
  if (!graph.states().empty()) fail("the model keeps a state between runs: it cannot have a batch");
  Graph many = Rebatch(graph, batch).run();
  infer(many);
  return many;
}

}  // namespace sparkpilot

#include "grad/differentiate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "ir/id_map.h"
#include "ir/op.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace {

class Differentiation {
 public:
  Differentiation(Graph& graph, ValueId loss) : graph_(graph), loss_(loss), b_(graph) {}

  std::vector<ValueId> run(std::span<const ValueId> asked) {
    std::vector<ValueId> wrt(asked.begin(), asked.end());
    check(loss_, "loss");
    if (graph_.value(loss_).shape->elements() != 1) {
      fail("the loss has the shape {}, gradients need one element", graph_.value(loss_).shape->str());
    }
    for (const ValueId id : wrt) check(id, "value");
    std::vector<NodeId> between = nodes_between(wrt);
    while (expand(between, wrt)) between = nodes_between(wrt);
    seed();
    std::ranges::reverse(between);
    for (const NodeId id : between) pass(id);
    std::vector<ValueId> out;
    for (const ValueId id : wrt) out.push_back(gradients_[id].present() ? gradients_[id] : zeros_of(id));
    return out;
  }

 private:
  void check(ValueId id, const char* what) const {
    const Value& v = graph_.value(id);
    if (!is_float(v.dtype)) fail("the {} \"{}\" is {}, only floats have gradients", what, v.name, name(v.dtype));
    if (!v.shape) fail("the shape of the {} \"{}\" is not known", what, v.name);
  }

  // The nodes on a path of floats from any of `wrt` to the loss, in order; sets what depends on `wrt`.
  std::vector<NodeId> nodes_between(std::span<const ValueId> wrt) {
    depends_ = ValueMap<bool>(graph_.value_count());
    for (const ValueId id : wrt) depends_[id] = true;
    std::vector<NodeId> after, out;
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      if (std::ranges::none_of(node.inputs, [&](ValueId input) { return input.present() && depends_[input]; }))
        continue;
      for (const ValueId output : node.outputs) {
        if (is_float(graph_.value(output).dtype)) depends_[output] = true;
      }
      after.push_back(id);
    }
    ValueMap<bool> needed(graph_.value_count());
    needed[loss_] = true;
    for (const NodeId id : std::vector<NodeId>(after.rbegin(), after.rend())) {
      const Node& node = graph_.node(id);
      if (std::ranges::none_of(node.outputs, [&](ValueId output) { return needed[output] && depends_[output]; }))
        continue;
      for (const ValueId input : node.inputs) {
        if (input.present()) needed[input] = true;
      }
      out.push_back(id);
    }
    std::ranges::reverse(out);
    return out;
  }

  // Replaces the nodes that have no gradient of their own by what they expand to; true if there were any.
  bool expand(const std::vector<NodeId>& nodes, std::vector<ValueId>& wrt) {
    bool any = false;
    for (const NodeId id : nodes) {
      const Node node = graph_.node(id);
      if (node.op->grad) continue;
      if (!node.op->expand) {
        fail("{} has no gradient: {} (node \"{}\")", qualified(*node.op), node.op->no_gradient, graph_.label(id));
      }
      const std::vector<ValueId> made = in_node(id, [&] {
        ExpandContext context{.b = b_, .node = node};
        return node.op->expand(context);
      });
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (i >= made.size() || !made[i].present()) {
          if (!used(node.outputs[i], wrt)) continue;
          fail_internal("{}: its expansion leaves out output {}, which is used (node \"{}\")", qualified(*node.op), i,
                        graph_.label(id));
        }
        graph_.replace_uses(node.outputs[i], made[i]);
        if (node.outputs[i] == loss_) loss_ = made[i];
        std::ranges::replace(wrt, node.outputs[i], made[i]);
      }
      graph_.erase(id);
      any = true;
    }
    return any;
  }

  bool used(ValueId id, std::span<const ValueId> wrt) const {
    const auto is = [&](ValueId other) { return other == id; };
    return id == loss_ || std::ranges::any_of(wrt, is) || !graph_.uses()[static_cast<size_t>(id.index)].empty() ||
           std::ranges::any_of(graph_.outputs(), is, &Graph::Output::value) ||
           std::ranges::any_of(graph_.states(), is, &State::next);
  }

  void seed() {
    gradients_ = ValueMap<ValueId>(graph_.value_count());
    const Value& v = graph_.value(loss_);
    Tensor one = Tensor::zeros(v.dtype, *v.shape);
    store_element(v.dtype, one.raw(), 0, 1);
    gradients_[loss_] = b_.constant(std::move(one));
  }

  // Adds what flows from a node's outputs to its inputs.
  void pass(NodeId id) {
    const Node node = graph_.node(id);
    std::vector<ValueId> from;
    for (const ValueId output : node.outputs) from.push_back(gradients_[output]);
    if (std::ranges::none_of(from, [](ValueId g) { return g.present(); })) return;
    std::vector<bool> wanted;
    for (const ValueId input : node.inputs) {
      wanted.push_back(input.present() && depends_[input] && is_float(graph_.value(input).dtype));
    }
    in_node(id, [&] {
      GradContext context{.b = b_, .node = node, .out_grads = from, .wanted = wanted};
      const std::vector<ValueId> to = node.op->grad(context);
      for (size_t i = 0; i < to.size() && i < node.inputs.size(); ++i) {
        if (to[i].present() && wanted[i]) accumulate(node.inputs[i], to[i]);
      }
      return std::vector<ValueId>();
    });
  }

  void accumulate(ValueId value, ValueId flow) {
    flow = summed_to(flow, *graph_.value(value).shape);
    const ValueId before = gradients_[value];
    gradients_[value] = before.present() ? b_.add("Add", {before, flow}) : flow;
  }

  // Sums over the axes along which `shape` was broadcast.
  ValueId summed_to(ValueId flow, const Shape shape) {  // a copy: nodes that are added move the graph's values
    const Shape from = b_.shape(flow);
    if (from == shape) return flow;
    const int more = from.rank() - shape.rank();
    std::vector<int64_t> axes;
    for (int axis = 0; axis < from.rank(); ++axis) {
      if (axis < more || (shape[axis - more] == 1 && from[axis] != 1)) axes.push_back(axis);
    }
    if (!axes.empty()) flow = b_.add("ReduceSum", {flow, b_.ints(axes)}, {{"keepdims", int64_t{0}}});
    if (!(b_.shape(flow) == shape))
      flow = b_.add("Reshape", {flow, b_.ints(shape.dims())}, {{"allowzero", int64_t{1}}});
    return flow;
  }

  ValueId zeros_of(ValueId id) {
    const Value& v = graph_.value(id);
    return b_.constant(Tensor::zeros(v.dtype, *v.shape));
  }

  // Runs `work`, with op and node added to what it throws.
  template <typename Work>
  std::vector<ValueId> in_node(NodeId id, const Work& work) {
    try {
      return work();
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("the gradient of {}: {} (node \"{}\")", graph_.node(id).op->name,
                                            error.what(), graph_.label(id)));
    }
  }

  Graph& graph_;
  ValueId loss_;
  Builder b_;
  ValueMap<bool> depends_;       // what changes with any of `wrt`
  ValueMap<ValueId> gradients_;  // of the values that there were before; absent: none so far
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId loss, std::span<const ValueId> wrt) {
  return Differentiation(graph, loss).run(wrt);
}

}  // namespace sparkpilot

#include "ir/infer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/launch.h"
#include "tensor/finite.h"

namespace sparkpilot {
namespace {

class GraphInfer final : public InferContext {
 public:
  GraphInfer(Graph& graph, const Node& node) : InferContext(node), graph_(graph) {}

  DType dtype(int i) const override { return has(i) ? value_of(i).dtype : DType::none; }
  const Shape& shape(int i) const override {
    if (!has(i)) fail("input {} is missing", i);
    return *value_of(i).shape;
  }
  const Tensor* value(int i) const override {
    return has(i) ? graph_.constant(node.inputs[static_cast<size_t>(i)]) : nullptr;
  }

  void output(int i, DType dtype, const Shape& shape) override {
    if (!wants(i)) return;
    Value& v = graph_.value(node.outputs[static_cast<size_t>(i)]);
    v.dtype = dtype;
    v.shape = shape;
    ++known_outputs;
  }
  void output_dynamic(int i, DType dtype) override {
    if (!wants(i)) return;
    Value& v = graph_.value(node.outputs[static_cast<size_t>(i)]);
    v.dtype = dtype;
    v.shape.reset();
    ++unknown_outputs;
  }
  int known_outputs = 0, unknown_outputs = 0;

 private:
  const Value& value_of(int i) const { return graph_.value(node.inputs[static_cast<size_t>(i)]); }
  Graph& graph_;
};

}  // namespace

const Tensor& InferContext::known(int i) const {
  const Tensor* tensor = value(i);
  if (!tensor) {
    if (!has(i)) fail("input {} is missing", i);
    throw ValueUnknown{i};
  }
  return *tensor;
}

void check_schema(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const OpDef& op = *node.op;
  try {
    if (!op.refused.empty()) fail("{}", op.refused);
    const auto inputs = static_cast<int>(node.inputs.size()), outputs = static_cast<int>(node.outputs.size());
    if (inputs < op.inputs.least || inputs > op.inputs.most) {
      fail("{} inputs given, expected {} to {}", inputs, op.inputs.least, op.inputs.most);
    }
    if (outputs < op.outputs.least || outputs > op.outputs.most) {
      fail("{} outputs asked for, expected {} to {}", outputs, op.outputs.least, op.outputs.most);
    }
    for (int i = 0; i < op.inputs.least; ++i) {
      if (!node.inputs[static_cast<size_t>(i)].present()) fail("input {} is missing", i);
    }
    for (const auto& [key, value] : node.attrs) {
      const auto spec = std::find_if(op.attributes.begin(), op.attributes.end(),
                                     [&, &k = key](const AttrSpec& s) { return s.name == k; });
      if (spec == op.attributes.end()) fail("has no attribute {} in version {}", key, op.since);
      // An empty list carries no type in the file format.
      if (spec->type != type_of(value)) {
        fail("attribute {} is {}, expected {}", key, name(type_of(value)), name(spec->type));
      }
    }
    for (const AttrSpec& spec : op.attributes) {
      if (spec.required && !node.attrs.has(spec.name)) fail("attribute {} is missing", spec.name);
    }
  } catch (const Error& error) {
    fail_at(graph, id, error);
  }
}

bool infer_node(Graph& graph, NodeId id, int* missing) {
  if (missing) *missing = -1;
  const Node& node = graph.node(id);
  if (!node.op->infer) return false;
  for (const ValueId input : node.inputs) {
    if (input.present() && !graph.value(input).shape) return false;
  }
  GraphInfer context(graph, node);
  try {
    node.op->infer(context);
  } catch (const ValueUnknown& unknown) {
    if (missing) *missing = unknown.input;
    return false;
  } catch (const Error& error) {
    fail_at(graph, id, error);
  }
  const auto wanted = static_cast<int>(node.outputs.size());
  if (context.known_outputs + context.unknown_outputs != wanted) {
    fail_at(graph, id, Error(ErrorKind::internal, "inference left outputs without a type"));
  }
  return context.unknown_outputs == 0;
}

void infer(Graph& graph) {
  for (const NodeId id : graph.order()) infer_node(graph, id);
}

void bind_input(Graph& graph, ValueId input, const Shape& shape) {
  Value& v = graph.value(input);
  if (v.declared) {
    const auto& dims = *v.declared;
    bool fits = static_cast<int>(dims.size()) == shape.rank();
    std::string expected = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
      if (fits && dims[i].size >= 0 && dims[i].size != shape[static_cast<int>(i)]) fits = false;
      expected += (i ? "," : "") + (dims[i].size >= 0        ? std::to_string(dims[i].size)
                                    : dims[i].symbol.empty() ? "?"
                                                             : dims[i].symbol);
    }
    if (!fits) fail("input \"{}\" has shape {}, the model expects {}]", v.name, shape.str(), expected);
  }
  v.shape = shape;
}

std::vector<Tensor> evaluate(const Node& node, std::span<const Tensor> inputs, std::string_view kernel,
                             std::span<Body* const> bodies, uint64_t variable) {
  // As a graph of one node with constant inputs, so that inference sees the operands' contents.
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& tensor : inputs) ids.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
  const NodeId id = graph.add_node(*node.op, ids, node.attrs, static_cast<int>(node.outputs.size()), node.name);
  infer_node(graph, id);

  const Node& one = graph.node(id);
  const NodeProblem types(graph, id, variable);
  std::vector<ConstView> in_views;
  for (const Tensor& tensor : inputs) in_views.push_back({tensor.dtype(), tensor.shape(), tensor.raw()});
  std::vector<Tensor> outputs;
  std::vector<View> out_views;
  for (const TensorType& type : types.outputs()) {
    if (!type.known && !one.op->traits.dynamic) {
      fail("{}: output shape is not known (node \"{}\")", one.op->name, node.name);
    }
    outputs.push_back(type.known ? Tensor(type.dtype, type.shape) : Tensor());
    out_views.push_back(type.known ? outputs.back().view() : View{type.dtype, {}, nullptr});
  }
  const Launch made = launch(graph, id, types.problem(), kernel.empty() ? KernelChoice() : KernelChoice::only(kernel));
  const KernelState* state = made.state.get();
  const Buffer workspace(state ? state->workspace : 0);
  bool not_finite = false;
  for (size_t i = 0; state && i < inputs.size(); ++i) {
    if (i < 64 && (state->consumed >> i & 1)) in_views[i].data = nullptr;
    if (state->on_cpu.loses_nan) not_finite |= inputs[i].present() && !all_finite(inputs[i].view());
  }
  std::function<View(int, const Shape&)> allocate = [&](int i, const Shape& shape) {
    const auto at = static_cast<size_t>(i);
    outputs[at] = Tensor(out_views[at].dtype, shape);
    return out_views[at] = outputs[at].view();
  };
  try {
    made.kernel->run({.node = &one,
                      .inputs = in_views,
                      .outputs = out_views,
                      .workspace = workspace.data(),
                      .state = made.state.get(),
                      .bodies = bodies,
                      .not_finite = not_finite,
                      .allocate = &allocate});
  } catch (const Error& error) {
    fail_at(graph, id, error);
  }
  return outputs;
}

Cost cost_of(const OpDef& op, const Problem& problem) {
  Cost cost;
  const auto count = [&](std::span<const TensorType> types) {
    for (const TensorType& type : types) {
      if (type.known && type.dtype != DType::none)
        cost.bytes += static_cast<double>(storage_bytes(type.dtype, type.shape.elements()));
    }
  };
  if (op.traits.view || op.traits.shape_only) return cost;
  count(problem.outputs);
  if (op.needed) cost.needed = op.needed(problem);
  if (op.cost) cost.flops = op.cost(problem);
  else if (!problem.outputs.empty() && problem.outputs[0].known)
    cost.flops = static_cast<double>(problem.outputs[0].shape.elements());
  // An op that computes nothing (such as Gather) reads at most as many bytes of an operand as it writes.
  const double written = cost.bytes, most = cost.flops > 0 ? std::numeric_limits<double>::infinity() : written;
  for (const TensorType& type : problem.inputs) {
    const double before = cost.bytes;
    count(std::span(&type, 1));
    cost.bytes = std::min(cost.bytes, before + most);
  }
  return cost;
}

}  // namespace sparkpilot

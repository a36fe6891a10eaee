#include "bench/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "ir/id_map.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

class Disturber {
 public:
  Disturber(const RoundingErrors& errors, uint64_t seed) : errors_(errors), random_(seed) {}

  void disturb(const Tensor& tensor) {
    const double size = size_for(tensor.dtype());
    if (size == 0) return;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const double value = load_element(tensor.dtype(), tensor.raw(), i);
      const double factor = 1 + size * random_.uniform(-1, 1);
      if (std::isfinite(value) && value != std::trunc(value))
        store_element(tensor.dtype(), tensor.raw(), i, value * factor);
    }
  }

 private:
  double size_for(DType dtype) const {
    switch (dtype) {
      case DType::f32:
      case DType::f64: return errors_.single;
      case DType::f16: return errors_.half;
      case DType::bf16: return errors_.brain;
      default: return 0;
    }
  }

  RoundingErrors errors_;
  Random random_;
};

// --- norms that have kernels: computed as the nodes that define them
bool is_norm(const Node& node) {
  const std::string_view op = node.op->domain.empty() ? node.op->name : "";
  return op == "InstanceNormalization" || op == "LayerNormalization" || op == "GroupNormalization";
}

struct Norm {
  Shape rows;                 // the input's shape, with one axis (or more) for each mean
  std::vector<int64_t> over;  // the axes of `rows` that a mean is taken over
  Shape operand;              // shape of scale and bias that broadcasts to the input
};

Norm norm_of(const Node& node, const Shape& x, const Shape& scale) {
  Norm out;
  if (node.op->name == "LayerNormalization") {
    out.rows = x;
    out.operand = scale;
    for (int axis = normalize_axis(node.attrs.integer("axis", -1), x.rank()); axis < x.rank(); ++axis)
      out.over.push_back(axis);
    return out;
  }
  const int64_t groups = node.op->name == "GroupNormalization" ? node.attrs.integer("num_groups") : x[1];
  out.rows = Shape{x[0], groups, groups == 0 ? 0 : x.elements(1, x.rank()) / groups};
  out.over = {2};
  std::vector<int64_t> operand(static_cast<size_t>(x.rank() - 1), 1);
  operand[0] = x[1];
  out.operand = Shape(std::span<const int64_t>(operand));
  return out;
}

Graph taken_apart(const Node& node, std::span<const Tensor> inputs) {
  Graph graph;
  Builder b(graph, node.name);
  const Tensor& x = inputs[0];
  const DType dtype = x.dtype(), wide = dtype == DType::f64 ? dtype : DType::f32;
  const auto cast = [&](ValueId v, DType to) {
    return b.dtype(v) == to ? v : b.add("Cast", {v}, {{"to", onnx_code(to)}});
  };
  const Norm norm = norm_of(node, x.shape(), inputs[1].shape());
  const ValueId axes = b.ints(norm.over);
  const ValueId rows = cast(b.constant(x.reshaped(norm.rows)), wide);
  const ValueId mean = b.add("ReduceMean", {rows, axes});
  const ValueId distance = b.add("Sub", {rows, mean});
  const ValueId variance = b.add("ReduceMean", {b.add("Mul", {distance, distance}), axes});
  const ValueId epsilon = b.scalar(wide, node.attrs.real("epsilon", 1e-5f));
  const ValueId inverse = b.add("Reciprocal", {b.add("Sqrt", {b.add("Add", {variance, epsilon})})});
  ValueId y =
      b.add("Reshape", {b.add("Mul", {distance, inverse}), b.ints(x.shape().dims())}, {{"allowzero", int64_t{1}}});
  y = b.add("Mul", {y, cast(b.constant(inputs[1].reshaped(norm.operand)), wide)});
  if (inputs.size() > 2 && inputs[2].present()) {
    const Shape& shape = node.op->name == "LayerNormalization" ? inputs[2].shape() : norm.operand;
    y = b.add("Add", {y, cast(b.constant(inputs[2].reshaped(shape)), wide)});
  }
  graph.add_output(cast(y, dtype), "y");
  if (node.outputs.size() > 1) graph.add_output(mean, "mean");
  if (node.outputs.size() > 2) graph.add_output(inverse, "inverse");
  return graph;
}

// The nodes that define the op; its inputs become constants, so that shapes are known.
Graph expanded(const Node& node, std::span<const Tensor> inputs) {
  Graph graph;
  Node local = node;
  local.inputs.clear();
  for (const Tensor& tensor : inputs) local.inputs.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
  Builder builder(graph, node.name);
  ExpandContext context{builder, local};
  const std::vector<ValueId> outputs = node.op->expand(context);
  for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i) {
    if (!outputs[i].present()) fail("{}: its expansion leaves an output out (node \"{}\")", node.op->name, node.name);
    graph.add_output(outputs[i], std::to_string(i));
  }
  return graph;
}

std::vector<Tensor> compute(const Graph& graph, std::span<const Tensor> inputs, Disturber& errors);

std::vector<Tensor> compute(const Node& node, std::span<const Tensor> inputs, Disturber& errors) {
  constexpr std::string_view kPlain = "reference";
  if (is_norm(node)) return compute(taken_apart(node, inputs), {}, errors);
  if (node.op->cpu.empty() && node.op->expand) return compute(expanded(node, inputs), {}, errors);
  const std::vector<std::unique_ptr<Body>> owned = interpreted_bodies(node, kPlain);
  std::vector<Body*> bodies;
  for (const auto& body : owned) bodies.push_back(body.get());
  const bool plain =
      std::any_of(node.op->cpu.begin(), node.op->cpu.end(), [](const Kernel& k) { return k.name == kPlain; });
  const std::vector<Tensor> results = evaluate(node, inputs, plain ? kPlain : std::string_view{}, bodies);
  if (node.op->traits.view || node.op->traits.shape_only) return results;
  for (const Tensor& result : results) errors.disturb(result);
  return results;
}

std::vector<Tensor> compute(const Graph& graph, std::span<const Tensor> inputs, Disturber& errors) {
  ValueMap<Tensor> slot(graph.value_count());
  for (int i = 0; i < graph.value_count(); ++i) slot[ValueId{i}] = graph.value(ValueId{i}).constant;
  for (size_t i = 0; i < inputs.size(); ++i) slot[graph.inputs()[i]] = inputs[i];
  ValueMap<int> readers(graph.value_count());
  for (const Graph::Output& output : graph.outputs()) ++readers[output.value];
  const std::vector<NodeId> order = graph.order();
  for (const NodeId id : order) {
    for (const ValueId input : graph.node(id).inputs) {
      if (input.present()) ++readers[input];
    }
  }
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    std::vector<Tensor> arguments;
    for (const ValueId input : node.inputs) arguments.push_back(input.present() ? slot[input] : Tensor());
    const std::vector<Tensor> results = compute(node, arguments, errors);
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) slot[node.outputs[i]] = results[i];
    for (const ValueId input : node.inputs) {
      if (input.present() && --readers[input] == 0) slot[input] = Tensor();
    }
  }
  std::vector<Tensor> outputs;
  for (const Graph::Output& output : graph.outputs()) outputs.push_back(slot[output.value]);
  return outputs;
}

// Kind of a value: finite, or which non-finite one.
int kind_of(double value) { return std::isnan(value) ? 2 : !std::isinf(value) ? 0 : value > 0 ? 1 : -1; }

bool alike(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && a.shape() == b.shape(); }

// L2 norm over the elements not skipped; infinite if any two are of different kinds.
double difference(const Tensor& a, const Tensor& b, const std::vector<bool>& skipped) {
  double squares = 0;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = load_element(a.dtype(), a.raw(), i), y = load_element(b.dtype(), b.raw(), i);
    if (!skipped.empty() && skipped[static_cast<size_t>(i)]) continue;
    if (kind_of(x) != kind_of(y)) return std::numeric_limits<double>::infinity();
    if (kind_of(x) == 0) squares += (x - y) * (x - y);
  }
  return std::sqrt(squares);
}

double norm_of(const Tensor& tensor) {
  double squares = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double x = load_element(tensor.dtype(), tensor.raw(), i);
    if (std::isfinite(x)) squares += x * x;
  }
  return std::sqrt(squares);
}

}  // namespace

std::vector<Tensor> run_with_errors(const Graph& graph, std::span<const Tensor> inputs, const RoundingErrors& errors,
                                    uint64_t seed) {
  Disturber disturber(errors, seed);
  std::vector<Tensor> disturbed;
  for (const Tensor& input : inputs) {
    disturbed.push_back(input.clone());
    disturber.disturb(disturbed.back());
  }
  return compute(graph, disturbed, disturber);
}

Distance distance_of(const Tensor& got, const Tensor& expected, std::span<const Tensor> disturbed) {
  constexpr double kRoom = 4;
  Distance out;
  if (!alike(got, expected)) {
    out.relative_l2 = std::numeric_limits<double>::infinity();
    return out;
  }
  const double norm = measure_of(norm_of(expected));
  const double all = difference(got, expected, {});
  out.relative_l2 = all == 0 ? 0 : all / norm;
  if (disturbed.empty()) return out;
  std::vector<bool> undecided(static_cast<size_t>(expected.elements()));
  for (const Tensor& run : disturbed) {
    if (!alike(run, expected)) return out;  // a shape that depends on data, and so on rounding
    for (int64_t i = 0; i < expected.elements(); ++i) {
      if (kind_of(load_element(run.dtype(), run.raw(), i)) !=
          kind_of(load_element(expected.dtype(), expected.raw(), i)))
        undecided[static_cast<size_t>(i)] = true;
    }
  }
  double rounding = 0;
  for (const Tensor& run : disturbed) rounding = std::max(rounding, difference(run, expected, undecided));
  out.rounding = rounding / norm;
  out.explained = difference(got, expected, undecided) <= kRoom * rounding;
  if (std::find(undecided.begin(), undecided.end(), true) != undecided.end())
    out.rounding = std::numeric_limits<double>::infinity();
  return out;
}

}  // namespace sparkpilot

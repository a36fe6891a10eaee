// Helpers for the tests of passes: a graph is run before and after a pass, and the results must agree.
#pragma once

#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot::testing {

inline Tensor random_tensor(const Shape& shape, uint64_t seed, DType dtype = DType::f32, double scale = 1) {
  Random random(seed);
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) store_element(dtype, out.raw(), i, scale * random.normal());
  return out;
}

// Relative L2 distance; infinite elements must be equal.
inline double distance(const Tensor& got, const Tensor& expected) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < expected.elements(); ++i) {
    const double a = load_element(got.dtype(), got.raw(), i), b = load_element(expected.dtype(), expected.raw(), i);
    if (a == b) difference += 0;
    else difference += (a - b) * (a - b);
    if (std::isfinite(b)) norm += b * b;
  }
  return difference == 0 ? 0 : std::sqrt(difference / std::max(norm, 1e-30));
}

// The same with all floats in f64.
inline Graph in_f64(Graph graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    Value& v = graph.value(ValueId{i});
    if (!is_float(v.dtype)) continue;
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state) v.constant = convert(v.constant, DType::f64);
    v.dtype = DType::f64;
  }
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (!node.attrs.has("to")) continue;
    const std::optional<DType> to = dtype_from_onnx(node.attrs.integer("to"));
    if (to && is_float(*to)) node.attrs.set("to", onnx_code(DType::f64));
  }
  infer(graph);
  return graph;
}

inline int count(const Graph& graph, std::string_view op) {
  int n = 0;
  for (const NodeId id : graph.order()) n += is_op(graph.node(id), op);
  return n;
}

inline double flops(const Graph& graph) {
  double sum = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<TensorType> inputs, outputs;
    const auto type = [&](ValueId v) {
      return v.present() ? TensorType{graph.value(v).dtype, *graph.value(v).shape, true} : TensorType{};
    };
    for (const ValueId v : node.inputs) inputs.push_back(type(v));
    for (const ValueId v : node.outputs) outputs.push_back(type(v));
    sum += cost_of(*node.op, {.node = &node, .inputs = inputs, .outputs = outputs, .constants = {}}).flops;
  }
  return sum;
}

// Builds a graph with inputs of fixed shapes; a shorthand for Builder.
struct Net {
  Graph graph;
  Builder b{graph, "", 26};

  Net() { graph.opsets[""] = 26; }
  Net(const Net&) = delete;
  ValueId input(std::string name, const Shape& shape, DType dtype = DType::f32) {
    return graph.add_input(std::move(name), dtype, shape);
  }
  ValueId weight(const Shape& shape, uint64_t seed, double scale = 0.3) {
    return b.constant(random_tensor(shape, seed, DType::f32, scale));
  }
  ValueId scalar(double v) { return b.scalar(DType::f32, v); }
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attributes attrs = {}) {
    return b.add(name, std::move(inputs), std::move(attrs));
  }
  ValueId transpose(ValueId v, std::vector<int64_t> perm) { return op("Transpose", {v}, {{"perm", std::move(perm)}}); }
  ValueId reshape(ValueId v, std::initializer_list<int64_t> shape) { return op("Reshape", {v, b.ints(shape)}); }
  void output(ValueId v, std::string name = "y") { graph.add_output(v, std::move(name)); }
};

inline std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    inputs.push_back(random_tensor(*value.shape, seed++, value.dtype));
    if (is_integer(value.dtype)) inputs.back() = Tensor::zeros(value.dtype, *value.shape);
  }
  return inputs;
}

using PassFn = std::function<int(Graph&)>;

// Runs the pass on the graph and returns the number of changes. Fails if the name, type or contents of an output
// changed.
inline int run_and_compare(Graph& graph, const PassFn& pass, double tolerance = 1e-6) {
  const std::vector<Tensor> inputs = random_inputs(graph, 7);
  const std::vector<Tensor> before = interpret(graph, inputs);
  const auto outputs = graph.outputs();
  const int changes = pass(graph);
  infer(graph);
  const std::vector<Tensor> after = interpret(graph, inputs);
  for (size_t i = 0; i < before.size(); ++i) {
    if (graph.outputs()[i].name != outputs[i].name)
      fail("output {} is now \"{}\"", outputs[i].name, graph.outputs()[i].name);
    if (after[i].dtype() != before[i].dtype() || !(after[i].shape() == before[i].shape())) {
      fail("output {} was {}{}, is {}{}", outputs[i].name, name(before[i].dtype()), before[i].shape().str(),
           name(after[i].dtype()), after[i].shape().str());
    }
    const double error = distance(after[i], before[i]);
    if (!(error <= tolerance)) fail("output {} differs by {:.3g}, allowed {:.3g}", outputs[i].name, error, tolerance);
  }
  return changes;
}

}  // namespace sparkpilot::testing

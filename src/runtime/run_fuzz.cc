// Loads arbitrary bytes as a model and runs it on small inputs, by the interpreter and by a session: it must give
// results or an Error. The seeds are ONNX's own cases, if available, so that every op and pass sees invalid attributes
// and operands.
#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ir/op.h"
#include "onnx/import.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

constexpr int64_t kMaxElements = 1 << 14;  // of one value; larger ones only cost time
constexpr double kMaxFlops = 1e6;

// Inputs of the declared shapes, with open dimensions set to 2; empty if one is too large.
std::vector<Tensor> make_inputs(Graph& graph) {
  Random random(1);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    std::vector<int64_t> dims;
    if (value.declared) {
      for (const Dim& dim : *value.declared) dims.push_back(dim.size < 0 ? 2 : dim.size);
    }
    const Shape shape{std::span<const int64_t>(dims)};
    if (shape.elements() > kMaxElements) return {};
    Tensor tensor = Tensor::zeros(value.dtype, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      store_element(value.dtype, tensor.raw(), i, static_cast<double>(random.integer(-2, 4)));
    }
    inputs.push_back(tensor);
    bind_input(graph, id, shape);
  }
  return inputs;
}

// Whether every node is known to be small. Endless loops and large data-dependent values are valid, so they are not
// run.
bool is_small(const Graph& graph) {
  double flops = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const auto& [key, value] : node.attrs) {
      if (type_of(value) == AttrType::graph) return false;
    }
    std::vector<TensorType> inputs, outputs;
    for (const ValueId input : node.inputs) {
      if (!input.present()) {
        inputs.push_back({});
        continue;
      }
      const Value& value = graph.value(input);
      if (!value.shape) return false;
      inputs.push_back({value.dtype, *value.shape, true});
    }
    for (const ValueId output : node.outputs) {
      const Value& value = graph.value(output);
      if (!value.shape && !node.op->traits.dynamic) return false;
      if (value.shape && value.shape->elements() > kMaxElements) return false;
      outputs.push_back({value.dtype, value.shape.value_or(Shape{}), value.shape.has_value()});
    }
    const std::vector<Tensor> constants(inputs.size());
    if (node.op->cost) {
      flops += node.op->cost({.node = &node, .inputs = inputs, .outputs = outputs, .constants = constants});
    }
  }
  return flops < kMaxFlops;
}

void run_session(const Graph& graph, const std::vector<Tensor>& inputs) {
  Session session(graph, {.threads = 1});
  for (size_t i = 0; i < inputs.size(); ++i) session.set_input(session.inputs()[i].name, inputs[i].view());
  session.run();
}

void run(std::span<const std::byte> bytes) {
  Graph graph = parse_onnx(bytes, "fuzz.onnx");
  const std::vector<Tensor> inputs = make_inputs(graph);
  if (inputs.size() != graph.inputs().size()) return;
  // In most cases operands such as axes are inputs: made constants here, so that inference sees them.
  Graph bound = graph;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId constant = bound.add_constant(inputs[i]);
    bound.replace_uses(bound.inputs()[i], constant);
  }
  infer(bound);
  if (!is_small(bound)) return;
  interpret(bound, inputs, nullptr, "reference");
  interpret(bound, inputs);
  run_session(graph, inputs);
  run_session(bound, inputs);
}

}  // namespace
}  // namespace sparkpilot

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    sparkpilot::run({reinterpret_cast<const std::byte*>(data), size});
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();  // an internal error caused by the bytes
  }
  return 0;
}

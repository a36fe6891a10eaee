#include "ops/epilogue_nodes.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "ops/cpu/vector/epilogue.h"

namespace sparkpilot {
namespace {

using Step = Epilogue::Step;

// x / 2 * (1 + erf(x / sqrt(2))), or the form with tanh, for opsets without Gelu.
ValueId plain_gelu(Builder& b, ValueId x, bool with_tanh) {
  const DType t = b.dtype(x);
  ValueId inner;
  if (with_tanh) {
    const ValueId cube = b.add("Mul", {b.add("Mul", {x, x}), x});
    const ValueId sum = b.add("Add", {x, b.add("Mul", {cube, b.scalar(t, 0.044715)})});
    inner = b.add("Tanh", {b.add("Mul", {sum, b.scalar(t, std::sqrt(2 * std::numbers::inv_pi))})});
  } else {
    inner = b.add("Erf", {b.add("Mul", {x, b.scalar(t, std::numbers::sqrt2 / 2)})});
  }
  const ValueId half = b.add("Mul", {x, b.scalar(t, 0.5)});
  return b.add("Mul", {half, b.add("Add", {inner, b.scalar(t, 1)})});
}

ValueId gelu(Builder& b, ValueId x, bool with_tanh) {
  if (b.opset() < 20) return plain_gelu(b, x, with_tanh);
  return b.add("Gelu", {x}, {{"approximate", std::string(with_tanh ? "tanh" : "none")}});
}

ValueId hard_swish(Builder& b, ValueId x) {
  if (b.opset() >= 14) return b.add("HardSwish", {x});
  return b.add("Mul", {x, b.add("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}})});
}

ValueId activation_node(Builder& b, const Step& step, ValueId x) {
  const DType t = b.dtype(x);
  switch (step.function) {
    // Activations without an op in older opsets, and the one whose parameters are inputs.
    case Activation::gelu_tanh: return gelu(b, x, true);
    case Activation::gelu_erf: return gelu(b, x, false);
    case Activation::silu: return b.add("Mul", {x, b.add("Sigmoid", {x})});
    case Activation::hard_swish: return hard_swish(b, x);
    case Activation::clip: return b.add("Clip", {x, b.scalar(t, step.alpha), b.scalar(t, step.beta)});
    default: break;
  }
  const EpilogueActivation* row = epilogue_activation(step.function);
  if (!row) fail_internal("epilogue with an activation that has no nodes");
  return b.add(row->op, {x}, row->alpha.empty() ? Attributes{} : Attributes{{std::string(row->alpha), step.alpha}});
}

}  // namespace

void check_epilogue(const InferContext& c, const Shape& output, int64_t channels) {
  std::vector<TensorType> inputs;
  for (int i = 0; i < c.input_count(); ++i) {
    inputs.push_back(c.has(i) ? TensorType{c.dtype(i), c.shape(i)} : TensorType{});
  }
  Epilogue::parse(c.attrs.texts("epilogue"), inputs, output, channels);
}

std::vector<std::string> epilogue_steps() {
  std::vector<std::string> steps;
  for (const EpilogueActivation& row : kEpilogueActivations) {
    steps.push_back(epilogue_step(row.activation, row.parameters == 2 ? -0.5f : 0.3f, 6));
  }
  return steps;
}

void move_epilogue(const ExpandContext& e, std::vector<std::string> steps, std::vector<ValueId>& inputs,
                   Attributes& attrs) {
  for (std::string& step : steps) {
    const std::optional<size_t> operand = operand_of_step(step);
    if (!operand) continue;
    inputs.push_back(e.in(*operand));
    step = step_with_operand(step, inputs.size() - 1);
  }
  if (!steps.empty()) attrs.set("epilogue", std::move(steps));
}

ValueId cast_to(Builder& b, ValueId value, DType dtype) {
  if (b.dtype(value) == dtype) return value;
  return b.add("Cast", {value}, {{"to", onnx_code(dtype)}});
}

ValueId add_epilogue_nodes(ExpandContext& e, ValueId y, int channel_axis) {
  Builder& b = e.b;
  const Shape out = b.shape(y);
  std::vector<TensorType> inputs;
  for (const ValueId input : e.node.inputs) {
    inputs.push_back(input.present() ? TensorType{b.dtype(input), b.shape(input)} : TensorType{});
  }
  const Epilogue epilogue = Epilogue::parse(e.node.attrs.texts("epilogue"), inputs, out, out[channel_axis]);
  for (const Step& step : epilogue.steps()) {
    if (step.kind == Step::activation) {
      y = activation_node(b, step, y);
      continue;
    }
    ValueId operand = cast_to(b, e.in(static_cast<size_t>(step.input)), b.dtype(y));
    if (step.operand == Step::channel && channel_axis != out.rank() - 1) {
      std::vector<int64_t> dims(static_cast<size_t>(out.rank() - channel_axis), 1);
      dims[0] = out[channel_axis];
      operand = b.add("Reshape", {operand, b.ints(dims)});
    } else if (step.operand == Step::scalar && b.shape(operand).rank() > out.rank()) {
      operand = b.add("Reshape", {operand, b.ints({1})});
    }
    y = b.add(step.kind == Step::add ? "Add" : "Mul", {y, operand});
  }
  return y;
}

}  // namespace sparkpilot

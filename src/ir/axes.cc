#include "ir/axes.h"

#include <algorithm>

namespace sparkpilot {

AxisSource broadcast_axis(const Shape& operand, const Shape& output, int axis) {
  const int own = axis - (output.rank() - operand.rank());
  if (own < 0 || operand[own] != output[axis]) return {AxisSource::broadcast};
  return {AxisSource::same, own};
}

AxisSource view_axis(const Shape& input, const Shape& output, int axis) {
  const int64_t outer = output.elements(0, axis);
  for (int own = 0; own < input.rank(); ++own) {
    if (input[own] == output[axis] && input.elements(0, own) == outer) return {AxisSource::same, own};
  }
  return {};
}

AxisSource axis_source(const OpDef& op, const Problem& problem, int output, int axis, size_t input) {
  if (!problem.has(input)) return {AxisSource::broadcast};
  const auto known = [](const TensorType& type) { return type.dtype == DType::none || type.known; };
  if (!std::all_of(problem.inputs.begin(), problem.inputs.end(), known)) return {};
  if (!std::all_of(problem.outputs.begin(), problem.outputs.end(), known)) return {};
  if (op.axes) return op.axes(problem, output, axis, input);
  const Shape &from = problem.inputs[input].shape, &to = problem.outputs[static_cast<size_t>(output)].shape;
  if (op.traits.view && input == 0) return view_axis(from, to, axis);
  if (op.traits.view) return {AxisSource::broadcast};
  if (op.traits.elementwise) return broadcast_axis(from, to, axis);
  return {};
}

}  // namespace sparkpilot

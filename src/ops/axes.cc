#include "ops/axes.h"

namespace sparkpilot {
namespace {

int channel_axis(const Problem& p) {
  return p.attrs().integer("channels_last", 0) != 0 ? p.outputs[0].shape.rank() - 1 : 1;
}

}  // namespace

std::optional<std::vector<int64_t>> constant_list(const Problem& p, size_t input) {
  if (!p.has(input)) return std::vector<int64_t>{};
  if (!p.is_constant(input)) return {};
  return p.constants[input].to_ints();
}

AxisSource axes_of_row_norm(const Problem& p, int, int axis, size_t input) {
  const Shape& x = p.inputs[0].shape;
  if (axis >= normalize_axis(p.attrs().integer("axis", -1), x.rank())) return {};
  return input == 0 ? same_axis(axis) : broadcast_axis(p.inputs[input].shape, x, axis);
}

AxisSource axes_of_convolution(const Problem& p, int, int axis, size_t input) {
  const Shape &own = p.inputs[input].shape, &y = p.outputs[0].shape;
  const int channel = channel_axis(p);
  if (input >= 3) {  // operand of an epilogue: the output's shape, one element per channel, or one element
    if (own == y) return same_axis(axis);
    return axis == channel && own.rank() == 1 && own[0] == y[channel] ? same_axis(0) : whole_input();
  }
  if (axis == channel) {
    if (p.attrs().integer("group", 1) != 1) return {};
    return input == 0 ? whole_input() : same_axis(0);
  }
  if (input > 0) return whole_input();
  return axis == 0 ? same_axis(0) : window_axis(axis);
}

AxisSource axes_of_pool(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  return axis == 0 || axis == channel_axis(p) ? same_axis(axis) : window_axis(axis);
}

AxisSource axes_of_entries(const Problem&, int, int axis, size_t input) {
  if (axis != 0) return {};
  return input == 0 ? same_axis(0) : whole_input();
}

}  // namespace sparkpilot

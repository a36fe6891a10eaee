// Axis maps (ir/op.h, AxesFn) that several ops share.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/axes.h"

namespace sparkpilot {

inline AxisSource same_axis(int axis) { return {AxisSource::same, axis}; }
inline AxisSource window_axis(int axis) { return {AxisSource::window, axis}; }
inline AxisSource whole_input() { return {AxisSource::broadcast}; }

// A constant operand as a list: empty if it is absent, nullopt if it is not constant.
std::optional<std::vector<int64_t>> constant_list(const Problem& p, size_t input);

// For ops that process each line along the attribute `axis` as a whole, independent of other lines. Output and input 0
// have the same rank; other inputs are small and used by all lines.
template <int64_t kDefault>
AxisSource axes_along_attribute(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const int along = normalize_axis(p.attrs().integer("axis", kDefault), p.inputs[0].shape.rank());
  return axis == along ? AxisSource{} : same_axis(axis);
}

// Norms over all axes from the attribute `axis` on, with operands that broadcast.
AxisSource axes_of_row_norm(const Problem& p, int output, int axis, size_t input);

// Convolutions and pools of images in either layout: the batch, the window of each spatial axis, and the channels.
// Inputs after the image: 1 is weights [O, I/g, spatial], 2 a bias [O], others are operands of an epilogue.
AxisSource axes_of_convolution(const Problem& p, int output, int axis, size_t input);
AxisSource axes_of_pool(const Problem& p, int output, int axis, size_t input);
// For images or rows whose batch entries are independent; the other inputs (weights, tables) are used whole by each
// entry.
AxisSource axes_of_entries(const Problem& p, int output, int axis, size_t input);

}  // namespace sparkpilot

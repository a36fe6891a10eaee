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

// A constant operand as a list; empty where it is absent, nothing where it is no constant.
std::optional<std::vector<int64_t>> constant_list(const Problem& p, size_t input);

// Ops that treat the elements along the attribute `axis` together and each line along it apart. Output and input 0 have
// one rank; other inputs are small and read by all lines.
template <int64_t kDefault>
AxisSource axes_along_attribute(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const int along = normalize_axis(p.attrs().integer("axis", kDefault), p.inputs[0].shape.rank());
  return axis == along ? AxisSource{} : same_axis(axis);
}

// Norms over all axes from the attribute `axis` on, with operands that broadcast.
AxisSource axes_of_row_norm(const Problem& p, int output, int axis, size_t input);

// Convolutions and pools of images in either layout: the batch, the window of each spatial axis, and the channels. Of
// the inputs behind the image, 1 is weights [O, I/g, spatial], 2 a bias [O], others are an epilogue's.
AxisSource axes_of_convolution(const Problem& p, int output, int axis, size_t input);
AxisSource axes_of_pool(const Problem& p, int output, int axis, size_t input);
// Of an image, or of rows: entries alone, by weights and tables that each of them reads whole.
AxisSource axes_of_entries(const Problem& p, int output, int axis, size_t input);

}  // namespace sparkpilot

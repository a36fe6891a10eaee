// The definition of Resize for each axis: which input positions an output position reads, and with which weights.
//
// Resampling is separable: the value at (y, x) is the sum over the taps of y and of x of weight_y * weight_x * input.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// One axis: `out` positions, each the weighted sum of `taps` input positions, clamped to the input's range.
struct ResizeAxis {
  int64_t in = 0, out = 0;
  bool identity = true;  // position i reads only position i; the tables are empty
  int64_t taps = 1;
  std::vector<int32_t> index;     // [tap][position]
  std::vector<double> weight;     // [tap][position]; empty: all 1 (nearest)
  std::vector<uint8_t> replaced;  // [position], 1: the extrapolation value is used; empty: never
};

struct ResizeMode {
  enum Kind { nearest, linear, cubic } kind = nearest;
  enum Coordinates {
    half_pixel,
    half_pixel_symmetric,
    pytorch_half_pixel,
    align_corners,
    asymmetric,
    tf_half_pixel_for_nn,
    tf_crop_and_resize
  } coordinates = half_pixel;
  // by_scale: ceil on axes that shrink, floor on others, as the first Resize rounded; not in files.
  enum Rounding { prefer_floor, prefer_ceil, floor, ceil, by_scale } rounding = prefer_floor;
  double cubic_a = -0.75;
  bool antialias = false, exclude_outside = false;
  float extrapolation = 0;

  // Fails (user) on an unknown name.
  explicit ResizeMode(const Attributes& attrs);
};

// The operands after the data; not present() if absent. An empty operand counts as absent, as in opset 11.
struct ResizeOperands {
  Tensor roi, scales, sizes;
};

bool resize_operands_constant(const Problem& p);
ResizeOperands resize_operands(const Problem& p);  // of a node whose operands are constants

// Sizes and scale of one axis.
struct ResizeExtent {
  int64_t in = 0, out = 0;
  double scale = 1, length = 0;  // length: in * scale, before rounding down to `out`
  double start = 0, end = 1;     // region of interest, in units of the input
};

// One extent for each axis of the data in memory order (so channels are last if the attribute says so, although
// operands are in the order N, C, spatial). Fails (user) if the operands are invalid.
std::vector<ResizeExtent> resize_extents(const Shape& x, const Attributes& attrs, const ResizeOperands& operands);

// The tables of an axis; fails (user) if they would be too large.
ResizeAxis resize_axis(const ResizeExtent& extent, const ResizeMode& mode);

}  // namespace sparkpilot

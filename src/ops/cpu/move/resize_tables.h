// What Resize means, axis by axis: which input positions an output position reads, and with which weights.
//
// Resampling is separable: the value at (y, x) is the sum over the taps of y and of x of weight_y * weight_x * input.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// One axis: `out` positions, each the weighted sum of `taps` positions of the input, clamped to its range.
struct ResizeAxis {
  int64_t in = 0, out = 0;
  bool identity = true;  // position i reads position i alone; the tables are empty
  int64_t taps = 1;
  std::vector<int32_t> index;     // [tap][position]
  std::vector<double> weight;     // [tap][position]; empty: all 1 (nearest)
  std::vector<uint8_t> replaced;  // [position], 1: the extrapolation value stands here; empty: nowhere
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
  enum Rounding { prefer_floor, prefer_ceil, floor, ceil } rounding = prefer_floor;
  double cubic_a = -0.75;
  bool antialias = false, exclude_outside = false;
  float extrapolation = 0;

  // Fails (user) on a word it does not know.
  explicit ResizeMode(const Attributes& attrs);
};

// The operands after the data; not present() where they are absent. An empty one counts as absent, as opset 11 wrote
// it.
struct ResizeOperands {
  Tensor roi, scales, sizes;
};

bool resize_operands_constant(const Problem& p);
ResizeOperands resize_operands(const Problem& p);  // of a node whose operands are constants

// How one axis is stretched.
struct ResizeExtent {
  int64_t in = 0, out = 0;
  double scale = 1, length = 0;  // length: in * scale, before it was rounded down to `out`
  double start = 0, end = 1;     // region of interest, in units of the input
};

// One extent for each axis of the data as it lies in memory (so channels are last where the attribute says so, though
// operands are in the order N, C, spatial). Fails (user) where the operands make no sense.
std::vector<ResizeExtent> resize_extents(const Shape& x, const Attributes& attrs, const ResizeOperands& operands);

// The tables of an axis; fails (user) where they would be absurdly large.
ResizeAxis resize_axis(const ResizeExtent& extent, const ResizeMode& mode);

}  // namespace sparkpilot

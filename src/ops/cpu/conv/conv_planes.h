// The project's dense convolution of f32 images with channels first into images with channels last: for the first layer
// of a network, whose few channels need not be moved first.
#pragma once

#include "ops/cpu/gemm/tile_gemm.h"

namespace sparkpilot {

// Whether convolve_planes() supports the shape: at most two dimensions, one group, dense rows of pixels, no dilation.
bool convolve_planes_takes(const ConvShape& shape);

// Packs f32 weights [O, I, kernel] for convolve_planes().
PanelMatrix pack_planes(const ConstView& weights, const ConvShape& shape);

// As convolve_rows(). Serial; every element is summed over channels in order, and over kernel positions within each.
void convolve_planes(const float* x, const ConvShape& shape, const PanelView& b, const TileOutput& out,
                     const RowRange& range);

}  // namespace sparkpilot

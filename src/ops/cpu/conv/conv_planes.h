// The project's own dense convolution of f32 images that come with channels first, into one with channels last: the
// first layer of a network, whose few channels need not be brought together first.
#pragma once

#include "ops/cpu/gemm/tile_gemm.h"

namespace sparkpilot {

// Whether convolve_planes() takes the shape: two dimensions at most, one group, dense rows of pixels, no dilation.
bool convolve_planes_takes(const ConvShape& shape);

// Weights [O, I, kernel] of f32 as convolve_planes() wants them.
PanelMatrix pack_planes(const ConstView& weights, const ConvShape& shape);

// As convolve_rows(). Serial; every element is summed in the order of channels, and of kernel positions within.
void convolve_planes(const float* x, const ConvShape& shape, const PanelMatrix& b, const TileOutput& out,
                     const RowRange& range);

}  // namespace sparkpilot

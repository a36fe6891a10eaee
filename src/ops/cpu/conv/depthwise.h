// The project's own depthwise convolution: f32 images with channels last, one or two filters a channel.
#pragma once

#include "ops/cpu/gemm/tile_gemm.h"

namespace sparkpilot {

// Rows of the output (n, d, h) in [first_row, last_row), all columns, the channels of panels [first_panel, last_panel).
// `weights` (f32) has the kernel's positions as depth and the channels as columns; `out.stride` is not used. Serial;
// every element is summed in the order of the kernel's positions.
//
// Of an image that is made row by row only the last `ring` rows need be there: row h lies where h % ring would.
void depthwise_rows(const float* x, int64_t ring, const ConvShape& shape, const PanelMatrix& weights,
                    const TileOutput& out, const RowRange& range);

}  // namespace sparkpilot

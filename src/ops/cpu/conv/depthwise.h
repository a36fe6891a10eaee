// The project's depthwise convolution: f32 images with channels last, one or two filters per channel.
#pragma once

#include "ops/cpu/gemm/tile_gemm.h"

namespace sparkpilot {

// Computes rows (n, d, h) [first_row, last_row) of the output, all columns, for the channels of panels [first_panel,
// last_panel). `weights` (f32) has kernel positions as depth and channels as columns; `out.stride` is not used. Serial;
// every element is summed over kernel positions in order.
//
// If the image is computed row by row, only its last `ring` rows need to exist: row h is at the place of row h % ring.
void depthwise_rows(const float* x, int64_t ring, const ConvShape& shape, const PanelView& weights,
                    const TileOutput& out, const RowRange& range);

}  // namespace sparkpilot

// The project's matrix kernel: rows of f32 times a packed matrix, for plain rows (products, 1x1 convolutions) and for
// rows gathered from an image with channels last (dense convolutions).
//
// A tile of some rows by one panel of columns keeps its sums in registers over the whole depth. Every element is summed
// over the depth in order, in one accumulator (in four for products of one or two rows), so results do not depend on
// how the work is split. 16-bit weights (packed_dtype) are converted while they are loaded: only half the bytes are
// read.
#pragma once

#include <limits>

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/gemm/panel_matrix.h"

namespace sparkpilot {

struct TileOutput {
  const float* bias = nullptr;  // padded to whole panels (pack_bias); null: zero
  float* y = nullptr;           // row 0, column 0
  int64_t stride = 0;           // between rows
  // Results are clamped to [low, high] before they are stored; NaN stays.
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
};

// Y[i, j] = clamp(bias[j] + sum over p of a[i * lda + p] * b[p, j]) for rows [first_row, last_row) and the columns of
// panels [first_panel, last_panel). `few` (the whole product has one or two rows) uses four partial sums for speed.
// Serial.
struct RowRange {
  int64_t first_row, last_row, first_panel, last_panel;
};
// The dtype in which weights are packed for this kernel: 16 bits if they are read for one or two rows (`few`), or are
// f16 for plain rows; else they are converted to f32 once.
inline DType packed_dtype(DType weights, bool plain_rows, bool few) {
  return plain_rows && (few || weights == DType::f16) ? weights : DType::f32;
}
void multiply_rows(const float* a, int64_t lda, const PanelView& b, const TileOutput& out, const RowRange& range,
                   bool few);
// The same for a single panel of f32 in memory of the caller's, [depth, kPanel], which stands at range.first_panel of a
// matrix of so many columns.
void multiply_panel(const float* a, int64_t lda, const float* panel, int64_t depth, int64_t columns,
                    const TileOutput& out, const RowRange& range);

// A dense convolution (one group) of f32 images with channels last: rows are the output's positions n, d, h, w; the
// depth of `b` is [kernel positions, channels]. `x` points to the group's first channel. `zeros` must have as many
// zeros as a group has input channels, and at least kConvolveZeros. Serial.
inline constexpr int64_t kConvolveZeros = 512;
void convolve_rows(const float* x, const ConvShape& shape, const float* zeros, const PanelView& b,
                   const TileOutput& out, const RowRange& range);

}  // namespace sparkpilot

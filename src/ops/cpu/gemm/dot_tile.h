// The matrix kernel for bf16: rows of bf16 times a packed matrix of bf16, by the processor's dot products, summed in
// f32.
//
// An instruction adds the products of a few adjacent depths to each sum (vdpbf16ps of AVX-512: two, bfmmla of NEON:
// four), so weights are stored in groups of that many. Every element is summed over the depth in order, in one
// accumulator: results do not depend on how the work is split.
#pragma once

#include <limits>

#include "ops/cpu/gemm/panel_matrix.h"

namespace sparkpilot {

// Depths that one dot product takes; 0 if the processor, or the compiler, has no bf16 dot products.
int64_t dot_group();

struct DotMatrix {
  static constexpr int64_t kPanel = PanelMatrix::kPanel;
  int64_t depth = 0, columns = 0;
  Tensor data;  // [panels, depth / group, kPanel, group] of bf16; padded with zeros

  int64_t panels() const { return (columns + kPanel - 1) / kPanel; }
};

// Packs bf16 `source` in groups of dot_group(), and pads the depth with zeros to a multiple of `step`.
DotMatrix pack_dots(const ConstView& source, int64_t depth, int64_t columns, const PanelSource& where,
                    int64_t step = 1);

// Y[i, j] = clamp(bias[j] + sum over p of a[i * lda + p] * b[p, j]) for i < rows and all columns of panels
// [first_panel, last_panel): column 0 of `y` is the first panel's first. NaN stays. Serial. Requires dot_group() > 0.
struct DotPiece {
  const BFloat16* a = nullptr;
  int64_t lda = 0, rows = 0;
  int64_t first_panel = 0, last_panel = 0;
  const float* bias = nullptr;  // padded to whole panels (pack_bias), from column 0 of b on; null: zero
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  float* y = nullptr;
  int64_t stride = 0;           // between rows of y
  BFloat16* rounded = nullptr;  // if set, rounded results go here instead of y, with `stride`, without padding columns
};
void multiply_dots(const DotMatrix& b, const DotPiece& piece);

}  // namespace sparkpilot

// A constant matrix in E4M3 or NVFP4 (tensor/small_floats.h), packed in panels whose weights are decoded in registers.
//
// A product of one or two rows uses each weight once or twice, so its time is that of reading them: a quarter of f32's
// bytes in E4M3, a seventh in NVFP4. More rows read a panel that has been decoded to f32 into memory of the caller's.
#pragma once

#include "ops/cpu/gemm/tile_gemm.h"

namespace sparkpilot {

struct SmallPanels {
  static constexpr int64_t kPanel = PanelMatrix::kPanel, kBlock = 16;
  // Sums of f32 in order are off by more than 1e-6 beyond a few thousand depths, so pieces of so many are added up.
  static constexpr int64_t kPiece = 1024;
  int64_t depth = 0, columns = 0;
  bool four_bits = false;
  // E4M3: [panels, depth, 32] bytes. NVFP4: [panels, blocks * 16, 16] bytes, column j in the low half of byte j and
  // column j + 16 in the high half. Zeros after the last column and depth.
  Tensor codes = {};
  // E4M3: f32 [panels * 32], 256 times each column's scale, as decoding gives a 256th. NVFP4: [panels, blocks, 32]
  // scales of blocks in E4M3.
  Tensor scales = {};
  float scale = 1;  // NVFP4: the tensor's

  int64_t panels() const { return (columns + kPanel - 1) / kPanel; }
  int64_t blocks() const { return (depth + kBlock - 1) / kBlock; }
};

// B[depth, columns]: `codes` has element (p, j) at p * row + j * column. E4M3 has `scales` of f32, one for the matrix
// or for each column; NVFP4 has block scales at p / 16 * scale_row + j * scale_column, and the tensor's scale.
struct SmallSource {
  ConstView codes = {};
  int64_t row = 0, column = 0;
  ConstView scales = {};
  int64_t scale_row = 0, scale_column = 0;
  float scale = 1;
};
SmallPanels pack_small(const SmallSource& source, int64_t depth, int64_t columns);

// multiply_rows() for one or two rows: range.last_row - range.first_row is 1 or 2. Serial. Every element is summed in
// an order that does not depend on the range.
void multiply_small(const float* a, int64_t lda, const SmallPanels& b, const TileOutput& out, const RowRange& range);

// A panel's weights in f32, [depth, 32], to `to`: the code times its scale, rounded once.
void decode_panel(const SmallPanels& b, int64_t panel, float* to);

}  // namespace sparkpilot

// A constant matrix packed for tile_gemm: panels of kPanel columns, with the rows of each panel contiguous.
#pragma once

#include "tensor/tensor.h"

namespace sparkpilot {

struct PanelMatrix {
  static constexpr int64_t kPanel = 32;  // two vectors of AVX-512, four of AVX2, eight of NEON
  int64_t depth = 0, columns = 0;
  Tensor data;  // [panels, depth, kPanel] of f32, f16 or bf16; zeros after the last column

  int64_t panels() const { return (columns + kPanel - 1) / kPanel; }
};

// What kernels read of a packed matrix, wherever its data lie.
struct PanelView {
  int64_t depth = 0, columns = 0;
  DType dtype = DType::f32;
  const void* data = nullptr;

  PanelView(const PanelMatrix& m) : depth(m.depth), columns(m.columns), dtype(m.data.dtype()), data(m.data.raw()) {}
  // f32 that pack_panels() wrote.
  PanelView(const float* packed, int64_t depth, int64_t columns) : depth(depth), columns(columns), data(packed) {}
  int64_t panels() const { return (columns + PanelMatrix::kPanel - 1) / PanelMatrix::kPanel; }
};

// Element (depth p, column j) of the source is at j * column + p / inner * outer_step + p % inner * inner_step.
struct PanelSource {
  int64_t column = 0, inner = 1, inner_step = 0, outer_step = 0;
  int64_t row(int64_t p) const { return p / inner * outer_step + p % inner * inner_step; }
};

inline Tensor in_dtype(const Tensor& tensor, DType dtype) {
  return tensor.dtype() == dtype ? tensor : convert(tensor, dtype);
}
// Packs f32, f16 or bf16 `source` in the same dtype.
PanelMatrix pack_panels(const ConstView& source, int64_t depth, int64_t columns, const PanelSource& where);

// Panels [first, last) of a matrix of f32 into memory of panel_floats(), which holds all panels: for matrices that are
// known in a run only. Serial.
inline int64_t panel_floats(int64_t depth, int64_t columns) {
  return (columns + PanelMatrix::kPanel - 1) / PanelMatrix::kPanel * depth * PanelMatrix::kPanel;
}
inline int64_t bias_floats(int64_t columns) { return panel_floats(1, columns); }
void pack_panels(const float* from, int64_t depth, int64_t columns, const PanelSource& where, int64_t first,
                 int64_t last, float* to);

// scale * bias into memory of bias_floats().
void pack_bias(const float* bias, int64_t columns, float scale, float* to);

// `count` values as f32, padded with zeros to whole panels.
Tensor pack_bias(const ConstView& source, int64_t count);

}  // namespace sparkpilot

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

// `count` values as f32, padded with zeros to whole panels.
Tensor pack_bias(const ConstView& source, int64_t count);

}  // namespace sparkpilot

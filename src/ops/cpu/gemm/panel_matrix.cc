#include "ops/cpu/gemm/panel_matrix.h"

#include <algorithm>

#include "ops/cpu/move/transpose.h"

namespace sparkpilot {

PanelMatrix pack_panels(const ConstView& source, int64_t depth, int64_t columns, const PanelSource& where) {
  constexpr int64_t kPanel = PanelMatrix::kPanel;
  PanelMatrix out{depth, columns, {}};
  out.data = Tensor::zeros(source.dtype, Shape{out.panels(), depth, kPanel});
  dispatch_size(source.dtype, [&]<typename T>() {
    const T* from = source.as<T>();
    T* to = static_cast<T*>(out.data.raw());
    for (int64_t panel = 0; panel < out.panels(); ++panel) {
      const int64_t first = panel * kPanel, count = std::min(kPanel, columns - first);
      for (int64_t p = 0; p < depth; ++p, to += kPanel) {
        const T* row = from + where.row(p);
        for (int64_t j = 0; j < count; ++j) to[j] = row[(first + j) * where.column];
      }
    }
  });
  return out;
}

void pack_panels(const float* from, int64_t depth, int64_t columns, const PanelSource& where, int64_t first,
                 int64_t last, float* to) {
  constexpr int64_t kPanel = PanelMatrix::kPanel;
  const bool adjacent = where.inner >= depth && where.inner_step == 1;  // depths of a column
  for (int64_t panel = first; panel < last; ++panel) {
    float* at = to + panel * depth * kPanel;
    const float* source = from + panel * kPanel * where.column;
    const int64_t count = std::min(kPanel, columns - panel * kPanel);
    if (count < kPanel) std::fill_n(at, depth * kPanel, 0.0f);
    if (adjacent) {
      transpose_matrix(source, where.column, count, depth, at, kPanel);
      continue;
    }
    for (int64_t p = 0; p < depth; ++p, at += kPanel) {
      const float* row = source + where.row(p);
      if (where.column == 1) std::copy_n(row, count, at);
      else
        for (int64_t j = 0; j < count; ++j) at[j] = row[j * where.column];
    }
  }
}

void pack_bias(const float* bias, int64_t columns, float scale, float* to) {
  for (int64_t j = 0; j < columns; ++j) to[j] = scale * bias[j];
  std::fill(to + columns, to + bias_floats(columns), 0.0f);
}

Tensor pack_bias(const ConstView& source, int64_t count) {
  const Tensor out = Tensor::zeros(DType::f32, Shape{bias_floats(count)});
  for (int64_t i = 0; i < count; ++i) {
    out.data<float>()[static_cast<size_t>(i)] = static_cast<float>(load_element(source.dtype, source.data, i));
  }
  return out;
}

}  // namespace sparkpilot

// Kernels that read by indices: Gather, GatherElements, and Resize, which reads by tables.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// Indices count from the end where they are negative. Where one is out of range, which the CPU's kernels refuse, a
// GPU's gives zeros (docs/cuda.md).

// gather: y[outer, k, inner] = x[outer, indices[k], inner]
struct GatherArguments {
  const void* x;
  const void* indices;
  void* y;
  bool wide_indices;     // i64, else i32
  int size;              // of x's axis
  unsigned units;        // of y
  Divisor inner, count;  // inner in units
  int unit;              // bytes: 1, 2, 4, 8 or 16
};
// Elements have `bytes` 1, 2, 4 or 8; units are the widest that addresses and `inner` allow.
GatherArguments make_gather(const void* x, const void* indices, bool wide_indices, void* y, int bytes, int64_t outer,
                            int64_t size, int64_t inner, int64_t count);
KernelLaunch gather_launch(const GatherArguments& arguments);

// gather_elements: y[i, j, k] = x[i, indices[i, j, k], k] for axis 1
struct GatherElementsArguments {
  const void* x;
  const void* indices;
  void* y;
  Dimensions dimensions;         // of y and indices
  int strides[kMostDimensions];  // of x; 0 along the axis
  int size, stride;              // of x's axis
  unsigned elements;
  bool wide_indices;
  int bytes;  // of an element: 1, 2, 4 or 8
};
GatherElementsArguments make_gather_elements(const void* x, const void* indices, bool wide_indices, void* y, int bytes,
                                             const std::vector<int64_t>& x_sizes, const std::vector<int64_t>& y_sizes,
                                             int axis);
KernelLaunch gather_elements_launch(const GatherElementsArguments& arguments);

// resize_*: y[outer, i, j, inner] = sum of row_weights[s, i] * column_weights[t, j] * x[outer, rows[s, i], columns[t,
// j], inner] over taps s and t. Nearest has one tap, linear two, cubic four. Eight elements a thread if inner is a
// multiple of 8 and addresses of 16 bytes.
struct ResizeTable {
  const int* index;     // [taps, size], in range
  const float* weight;  // the same, or null: all 1
  int taps;
};
struct ResizeArguments {
  const void* x;
  void* y;
  ResizeTable rows, columns;
  int outer, x_rows, x_columns, inner;
  Divisor y_rows, y_columns, vectors;  // vectors: of inner
  unsigned threads;
  bool wide;
};
// All sizes together are below 2^31:
ResizeArguments make_resize(const void* x, void* y, int64_t outer, int64_t x_rows, int64_t x_columns, int64_t inner,
                            int64_t y_rows, int64_t y_columns, const ResizeTable& rows, const ResizeTable& columns);
KernelLaunch resize_launch(const ResizeArguments& arguments);

}  // namespace sparkpilot::cuda

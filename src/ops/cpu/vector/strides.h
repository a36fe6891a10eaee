// Indexing a shape as if it were broadcast to another: for plain reference kernels.
#pragma once

#include <array>

#include "tensor/shape.h"

namespace sparkpilot {

using Strides = std::array<int64_t, Shape::kMaxRank>;

// Strides of a dense tensor of shape `small` for each axis of `full`, 0 where it is broadcast. `small` must broadcast
// to `full`.
inline Strides broadcast_strides(const Shape& small, const Shape& full) {
  const Strides dense = small.strides();
  Strides out{};
  for (int i = 0; i < small.rank(); ++i) {
    const int at = full.rank() - small.rank() + i;
    out[static_cast<size_t>(at)] = small[i] == 1 ? 0 : dense[static_cast<size_t>(i)];
  }
  return out;
}

// The offset, under `strides`, of the element with row-major index `flat` in `shape`.
inline int64_t offset_of(int64_t flat, const Shape& shape, const Strides& strides) {
  int64_t offset = 0;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    offset += flat % shape[i] * strides[static_cast<size_t>(i)];
    flat /= shape[i];
  }
  return offset;
}

}  // namespace sparkpilot

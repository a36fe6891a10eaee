// ScatterND with or without a sum, such as the gradient of Gather: each row of the result looks for the updates that
// are its own, so their sum has an order and no two threads write to one place.
#pragma once

#include <cstdint>
#include <span>

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

constexpr int kMostScatterDepth = 4;

// scatter_*: y[row, i] = x[row, i] + updates[k, i] of all k whose tuple names the row, in the order of k; without `add`
// the last one's alone. A tuple with an index out of range names none.
struct ScatterArguments {
  const void* x;
  const void* indices;  // [count, depth]; negative ones count from the end
  const void* updates;  // [count, inner]
  void* y;              // [rows, inner], as x
  bool wide_indices;    // i64, else i32
  bool add;
  int depth;
  int sizes[kMostScatterDepth];  // rows: their product
  int count;
  unsigned inner, rows;
  unsigned threads;  // of a block, each with one element of a row
};
// `sizes`: x's axes that tuples index, at most kMostScatterDepth. All tensors have fewer than 2^31 elements, tuples
// fewer than 2^30 (`count`).
ScatterArguments make_scatter(const void* x, const void* indices, bool wide_indices, const void* updates, void* y,
                              std::span<const int64_t> sizes, int64_t count, int64_t inner, bool add);
KernelLaunch scatter_launch(const ScatterArguments& arguments);
// Indices that all warps read together, as a measure of time.
int64_t scatter_reads(const ScatterArguments& arguments);

}  // namespace sparkpilot::cuda

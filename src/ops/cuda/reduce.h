// Reductions of [outer, size, inner] to [outer, inner], in fp32 whatever the elements are stored in. Other axes are
// brought to this form by a copy. Sums are made in an order that only the arguments fix.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

enum class ReduceKind : uint8_t { sum, mean, max, min, prod, l1, l2, sum_square, log_sum, log_sum_exp };

// [outer, size, inner] of a reduction over some axes (by bits) of `sizes`; none if they do not lie together.
struct ReduceShape {
  int64_t outer = 1, size = 1, inner = 1;
};
std::optional<ReduceShape> reduce_shape(const std::vector<int64_t>& sizes, uint32_t axes);

// reduce_rows_* (inner is 1) or reduce_columns_*; with more than one part, partial results are written, and
// reduce_parts_* makes y of them. NaN if an element is (max and min too). `size` 0 gives the neutral element.
struct ReduceArguments {
  const void* x;
  void* y;
  float* partials;  // [outer * inner, parts, 2] if parts > 1: the value, and for log_sum_exp the maximum
  int outer, inner;
  int size, part;  // part: elements of a part, a multiple of 8
  int parts;
  ReduceKind kind;
};
// Sets part and parts, so that few outputs of many elements are computed by as many blocks as a GPU runs at once.
void set_reduce_parts(ReduceArguments& arguments, int multiprocessors);
size_t reduce_partial_bytes(const ReduceArguments& arguments);
KernelLaunch reduce_rows_launch(const ReduceArguments& arguments);
KernelLaunch reduce_columns_launch(const ReduceArguments& arguments);
KernelLaunch reduce_parts_launch(const ReduceArguments& arguments);

// arg_reduce_*: y (i64) is the index along `size` of the largest or smallest element, of equal ones the first or last.
// NaN is larger, for ArgMin smaller, than all numbers. A warp for each output.
struct ArgReduceArguments {
  const void* x;
  long long* y;
  int outer, size, inner;
  Divisor of_inner;
  bool least, last;
};
KernelLaunch arg_reduce_launch(const ArgReduceArguments& arguments);

}  // namespace sparkpilot::cuda

// A constant matrix of signed bytes packed for int8_gemm: blocks of 16 columns, in groups of 4 rows, so that a group of
// a block is what one AVX-512 vector multiplies. The depth is split into runs of contiguous input bytes, each padded to
// whole groups.
#pragma once

#include "tensor/tensor.h"

namespace sparkpilot {

struct Int8Matrix {
  static constexpr int64_t kBlock = 16, kGroup = 4;
  int64_t depth = 0, columns = 0, run = 0;
  Tensor data;  // i8 [blocks, groups, kBlock, kGroup]; zeros after the last column and each run
  Tensor sums;  // i32 [blocks * kBlock]: the sum of each column

  int64_t blocks() const { return (columns + kBlock - 1) / kBlock; }
  int64_t runs() const { return depth / run; }
  int64_t run_groups() const { return (run + kGroup - 1) / kGroup; }
  int64_t groups() const { return runs() * run_groups(); }
  int64_t padded_depth() const { return groups() * kGroup; }
};

// Element (depth p, column j) is source[j * column + p / inner * outer_step + p % inner * inner_step].
struct Int8Source {
  const int8_t* data;
  int64_t column, inner, inner_step, outer_step;
};
// `run` must divide the depth; 0: one run.
Int8Matrix pack_int8(const Int8Source& source, int64_t depth, int64_t columns, int64_t run = 0);

}  // namespace sparkpilot

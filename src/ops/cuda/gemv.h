// Kernels of products of few rows, up to 8, by constant weights: batch 1's fully connected layers. Bound by reading the
// weights once, so blocks are many and small. Names: gemv_<storage>, gemv_rows_<storage>, gemv_group_<storage>, where
// storage is that of a, y and the weights, or (not of gemv_rows) f32_weights_f16, f32_weights_bf16: a and y in f32,
// weights in 16 bits.
#pragma once

#include "ir/gemm_group.h"
#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// y[m, n] = epilogue(a[m, k] x weights[n, k]^T + bias[n]), each row's elements together.
// Fast where the host packs weights with 16-byte alignment and weight_stride a multiple of 16 bytes (the elements
// beyond k are not used), and a's rows likewise; right, by elements, where not.
struct GemvArguments {
  const void* a;
  const void* weights;
  const float* bias;  // or null
  void* y;
  int m, n, k;                                  // m: 1 for gemv_*, 1 to kGemvRows for gemv_rows_*
  int warps_per_row;                            // of gemv_* and gemv_rows_f32: gemv_warps_per_row()
  long long a_stride, weight_stride, y_stride;  // elements from row to row
  Epilogue epilogue;                            // operands: row of y, column of y
};
constexpr int kGemvRows = 8;

// How many warps (1, 2 or 4) share the depth of one row of weights, so that blocks cover the GPU.
constexpr int kGemvWarps = 4;  // of a block
int gemv_warps_per_row(int n, int k, int multiprocessors);
// One row: a warp, or two or four, for each row of weights.
KernelLaunch gemv_launch(const GemvArguments& arguments);
// Up to 8 rows. f32: like gemv. 16 bits: 16 rows of weights a block, whose 8 warps share the depth, by mma.
KernelLaunch gemv_rows_launch(const GemvArguments& arguments, bool storage_is_f32);

// Several products of one row in one launch, such as heads that read one vector. Each like gemv_*.
struct GemvGroupArguments {
  struct Steps {
    int count = 0;
    EpilogueStep steps[kMostGroupedSteps];
  };
  struct Product {
    const void* a;        // [k]
    const void* weights;  // [n, k]
    const float* bias;    // [n] or null
    void* y;              // [n]
    int n, k;
    long long weight_stride;
    int first_block;  // of the launch: gemv_group_prepare()
    int warps_per_row;
    Steps epilogue;  // operands: row 0, column of y
  };
  int count;
  Product products[kMostGroupedProducts];
};
// Fills in first_block and warps_per_row of all; returns how many blocks there are. `share`: of each product's warps by
// the model, half (-1), all (0) or twice as many (1).
int gemv_group_prepare(GemvGroupArguments& arguments, int multiprocessors, int share = 0);
KernelLaunch gemv_group_launch(const GemvGroupArguments& arguments);

}  // namespace sparkpilot::cuda

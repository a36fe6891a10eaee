// Kernels of products by constant weights whose operands come straight from global memory into the registers of mma,
// with all loads of a warp on their way at once: for few rows, or little depth, where waiting is most of the time. Also
// convolutions that are such a product, of images with channels last.
//   direct_gemm_<M>x<N>[_deep]_<type>      tiles of M rows and N columns; <type>: f16, bf16; deep: eight warps share
//   the depth
#pragma once

#include <string>
#include <vector>

#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

inline constexpr int kDirectSlice = 32;  // elements of depth that two mma multiply

// y = epilogue(a x b + bias). a and b begin at multiples of 16 bytes, their strides and depth are multiples of 8
// elements. b is not written while the kernel waits for the one before it.
struct DirectGemmArguments {
  const void* a;      // [rows, depth], a_stride elements from row to row
  const void* b;      // element (depth k, column n) at k / kDirectSlice * b_slice + n * b_column + k % kDirectSlice
  const float* bias;  // [columns], or null
  void* y;            // [rows, columns], at a multiple of 16 bytes
  int rows, columns, depth;
  int b_column;
  long long a_stride, b_slice;
  Epilogue epilogue;  // operands as of ConvArguments
};

// Each warp has 16 by 16 of a tile; depth_warps of them share the depth of each.
struct DirectGemmPlan {
  int rows = 16, columns = 16, depth_warps = 4;
  bool operator==(const DirectGemmPlan&) const = default;

  std::string kernel(Storage storage) const;
  std::string variant() const;  // "direct 16x16 by 8 warps"
  // Grid: tiles of rows, tiles of columns.
  KernelLaunch launch(long long rows, int columns) const;
  // Estimated clocks on a GPU, roughly.
  double cycles(long long rows, int columns, long long depth, int multiprocessors) const;
};
inline constexpr DirectGemmPlan kDirectGemmPlans[] = {{32, 32, 1}, {16, 16, 4}, {16, 16, 8}};

// Those that there are for a product of this size; none in f32.
std::vector<DirectGemmPlan> direct_gemm_plans(Storage storage, long long rows, int columns, long long depth);

}  // namespace sparkpilot::cuda

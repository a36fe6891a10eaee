// Kernels of matrix products in tiles, by weights or of two activations: their arguments, and the launches that they
// want. Products of few rows: gemv.h. Names: gemm_<storage>_<m>x<n>, gemm_kn_<storage>_<m>x<n> and
// gemm_km_f32_<m>x<n> by the tile of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/cuda/direct_gemm.h"
#include "ops/cuda/epilogue.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// How the operands lie, each row's elements together.
enum class GemmLayout : uint8_t {
  nk,  // a [m, k], b [n, k]
  kn,  // a [m, k], b [k, n]
  km,  // a [k, m], b [k, n]: gradients of weights; f32 only
};

// For each of outer x inner batches: y[m, n] = epilogue(a x b + bias[n]), of matrices that lie as GemmLayout says.
// Batch o, i of a begins at o * a_outer + i * a_inner, which may be 0, likewise b and y.
// Constant weights are best packed as [n, k]. Copied 16 bytes at a time where a and b begin at a multiple of 16 bytes
// and all of their strides are such multiples; by elements where not.
// With parts > 1 each part of the depth writes its sums to `partial`; gemm_sum_* adds them up, bias and epilogue with
// them.
struct GemmArguments {
  const void* a;
  const void* b;
  const float* bias;  // or null
  void* y;
  float* partial;  // [parts, outer, inner, m, n], at a multiple of 16 bytes
  int m, n, k;
  int outer, inner;                        // at least 1
  int parts, part_depth;                   // part_depth a multiple of kGemmDepth; parts * part_depth >= k
  long long a_stride, b_stride, y_stride;  // elements from row to row
  long long a_outer, a_inner, b_outer, b_inner, y_outer, y_inner;
  Epilogue epilogue;  // operands: row of all batches' rows (o * inner + i) * m + row, column of y
};
constexpr int kGemmDepth = 64;

// Tiles of one block of 128 threads. f32, gemm_kn and gemm_km have the square ones.
struct GemmTile {
  int m, n;
  bool operator==(const GemmTile&) const = default;
};
constexpr GemmTile kGemmTiles[] = {{128, 64}, {64, 64}, {32, 32}};
// Whether there is a kernel of this storage and layout with the tile.
bool gemm_has_tile(Storage storage, GemmLayout layout, GemmTile tile);

// Which tile and how many parts.
struct GemmPlan {
  GemmTile tile;
  int parts, part_depth;
  std::optional<DirectGemmPlan> direct = {};  // direct_gemm_* instead
  std::string variant() const;                // "64x64 in 4 parts"
};
// Those that are worth timing, the one first that takes fewest clock cycles by a rough model of blocks over
// multiprocessors. Empty if no grid is one that CUDA takes. `direct`: those of direct_gemm_*, too.
std::vector<GemmPlan> gemm_plans(Storage storage, GemmLayout layout, long long batches, int m, int n, int k,
                                 int multiprocessors, bool direct = false);
inline GemmPlan gemm_plan(Storage storage, GemmLayout layout, long long batches, int m, int n, int k,
                          int multiprocessors) {
  return gemm_plans(storage, layout, batches, m, n, k, multiprocessors).front();
}
size_t gemm_partial_bytes(const GemmArguments& arguments);  // 0 for one part
DirectGemmArguments direct_gemm_of(const GemmArguments& arguments);

std::string gemm_name(Storage storage, GemmLayout layout, GemmTile tile);
// Whether the grid is one that CUDA takes.
bool gemm_accepts(const GemmArguments& arguments, GemmTile tile);
KernelLaunch gemm_launch(const GemmArguments& arguments, GemmTile tile);
KernelLaunch gemm_sum_launch(const GemmArguments& arguments);

}  // namespace sparkpilot::cuda

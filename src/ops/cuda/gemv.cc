#include "ops/cuda/gemv.h"

#include <algorithm>

namespace sparkpilot::cuda {
namespace {

constexpr int kMmaRows = 16, kMmaWarps = 8;

int blocks_of(int n, int warps_per_row) {
  const int rows = kGemvWarps / warps_per_row;
  return (n + rows - 1) / rows;
}

}  // namespace

int gemv_warps_per_row(int n, int k, int multiprocessors) {
  // Four blocks a multiprocessor keep enough bytes on their way; below 256 elements a warp is done in one load.
  int warps = 1;
  while (warps < kGemvWarps && blocks_of(n, warps) < 4 * multiprocessors && k >= 512 * warps) warps *= 2;
  return warps;
}

KernelLaunch gemv_launch(const GemvArguments& arguments) {
  return {.grid_x = static_cast<unsigned>(blocks_of(arguments.n, arguments.warps_per_row)), .threads = kGemvWarps * 32};
}

KernelLaunch gemv_rows_launch(const GemvArguments& arguments, bool storage_is_f32) {
  if (storage_is_f32) return gemv_launch(arguments);
  return {.grid_x = static_cast<unsigned>((arguments.n + kMmaRows - 1) / kMmaRows), .threads = kMmaWarps * 32};
}

int gemv_group_prepare(GemvGroupArguments& arguments, int multiprocessors, int share) {
  int rows = 0, blocks = 0;
  for (int i = 0; i < arguments.count; ++i) rows += arguments.products[i].n;
  for (int i = 0; i < arguments.count; ++i) {
    GemvGroupArguments::Product& product = arguments.products[i];
    const int warps = gemv_warps_per_row(rows, product.k, multiprocessors);
    product.warps_per_row = share < 0 ? std::max(1, warps / 2) : share > 0 ? std::min(kGemvWarps, 2 * warps) : warps;
    product.first_block = blocks;
    blocks += blocks_of(product.n, product.warps_per_row);
  }
  return blocks;
}

KernelLaunch gemv_group_launch(const GemvGroupArguments& arguments) {
  const GemvGroupArguments::Product& last = arguments.products[arguments.count - 1];
  return {.grid_x = static_cast<unsigned>(last.first_block + blocks_of(last.n, last.warps_per_row)),
          .threads = kGemvWarps * 32};
}

}  // namespace sparkpilot::cuda

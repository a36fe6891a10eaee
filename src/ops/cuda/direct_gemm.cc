#include "ops/cuda/direct_gemm.h"

#include <limits>

#include "base/error.h"

namespace sparkpilot::cuda {
namespace {

long long divided(long long a, long long b) { return (a + b - 1) / b; }

}  // namespace

std::string DirectGemmPlan::kernel(Storage storage) const {
  return fmt::format("direct_gemm_{}x{}{}_{}", rows, columns, depth_warps == 8 ? "_deep" : "",
                     storage == Storage::f16 ? "f16" : "bf16");
}

std::string DirectGemmPlan::variant() const {
  return fmt::format("direct {}x{}{}", rows, columns, depth_warps == 8 ? " by 8 warps" : "");
}

KernelLaunch DirectGemmPlan::launch(long long all_rows, int all_columns) const {
  return {.grid_x = static_cast<unsigned>(divided(all_rows, rows)),
          .grid_y = static_cast<unsigned>(divided(all_columns, columns)),
          .threads = static_cast<unsigned>(rows / 16 * (columns / 16) * depth_warps * 32)};
}

// Guesses: 600 clocks of waiting once; then blocks of a multiprocessor one after another: 40 for each slice of a warp,
// bytes at 48 a clock, and 1/16 for each sum that is stored.
double DirectGemmPlan::cycles(long long all_rows, int all_columns, long long depth, int multiprocessors) const {
  const KernelLaunch grid = launch(all_rows, all_columns);
  const auto blocks = static_cast<double>(divided(1LL * grid.grid_x * grid.grid_y, multiprocessors));
  const auto slices = static_cast<double>(divided(divided(depth, kDirectSlice), depth_warps));
  const double bytes = static_cast<double>(2 * depth) * (rows + columns);
  return 600 + blocks * (slices * 40 + bytes / 48 + rows * columns / 16.0);
}

std::vector<DirectGemmPlan> direct_gemm_plans(Storage storage, long long rows, int columns, long long depth) {
  constexpr long long kMost = std::numeric_limits<int>::max();
  std::vector<DirectGemmPlan> out;
  if (storage == Storage::f32 || depth % 8 != 0 || depth > kMost / 2 || rows > kMost) return out;
  for (const DirectGemmPlan& plan : kDirectGemmPlans) {
    const bool idle = divided(depth, kDirectSlice) < plan.depth_warps;
    if (!idle && divided(columns, plan.columns) <= 65535) out.push_back(plan);
  }
  return out;
}

}  // namespace sparkpilot::cuda

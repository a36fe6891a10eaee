#include "ops/cuda/rows.h"

namespace sparkpilot::cuda {
namespace {

// Few rows are spread over as many multiprocessors as there are rows.
KernelLaunch launch_rows(long long rows, int size) {
  if (size > kWarpRow) return {.grid_x = static_cast<unsigned>(rows), .threads = 128};
  const long long warps = rows > 1024 ? 4 : 1;
  return {.grid_x = static_cast<unsigned>((rows + warps - 1) / warps), .threads = static_cast<unsigned>(warps * 32)};
}
KernelLaunch launch_threads(long long rows) {
  const long long threads = rows > 8192 ? 128 : 32;
  return {.grid_x = static_cast<unsigned>((rows + threads - 1) / threads), .threads = static_cast<unsigned>(threads)};
}

}  // namespace

KernelLaunch softmax_launch(const SoftmaxArguments& arguments) { return launch_rows(arguments.rows, arguments.size); }
KernelLaunch norm_launch(const NormArguments& arguments) { return launch_rows(arguments.rows, arguments.size); }
KernelLaunch softmax_strided_launch(const SoftmaxStridedArguments& arguments) {
  return launch_threads(arguments.outer * arguments.inner);
}
KernelLaunch norm_strided_launch(const NormStridedArguments& arguments) { return launch_threads(arguments.norm.rows); }

}  // namespace sparkpilot::cuda

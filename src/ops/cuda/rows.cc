#include "ops/cuda/rows.h"

#include <algorithm>

namespace sparkpilot::cuda {

KernelLaunch softmax_launch(const SoftmaxArguments& arguments) {
  const bool warps = arguments.size <= kSoftmaxWarpRow;
  const long long blocks = warps ? (arguments.rows + 3) / 4 : arguments.rows;
  return {.grid_x = static_cast<unsigned>(blocks), .threads = 128};
}

}  // namespace sparkpilot::cuda

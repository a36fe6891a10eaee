#include "ops/cuda/limits.h"

namespace sparkpilot::cuda {

KernelLaunch limit_launch(int blocks) {
  return {.grid_x = static_cast<unsigned>(blocks), .threads = kLimitThreads, .shared_bytes = 0};
}

}  // namespace sparkpilot::cuda

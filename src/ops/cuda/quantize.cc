#include "ops/cuda/quantize.h"

namespace sparkpilot::cuda {

KernelLaunch quantize_launch(int elements) {
  return {.grid_x = static_cast<unsigned>((int64_t{elements} + 8 * 128 - 1) / (8 * 128)), .threads = 128};
}

}  // namespace sparkpilot::cuda

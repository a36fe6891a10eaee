#include "ops/cuda/quantize.h"

namespace sparkpilot::cuda {

KernelLaunch quantize_launch(const QuantizeArguments& p) {
  return {.grid_x = static_cast<unsigned>((p.elements + 8 * 128 - 1) / (8 * 128)), .threads = 128};
}

}  // namespace sparkpilot::cuda

#include "ops/cuda/conv_weights.h"

namespace sparkpilot::cuda {

KernelLaunch conv_weights_launch(const ConvWeightsArguments& arguments) {
  return {.grid_x = (arguments.elements + 255) / 256, .threads = 256};
}

}  // namespace sparkpilot::cuda

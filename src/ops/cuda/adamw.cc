#include "ops/cuda/adamw.h"

namespace sparkpilot::cuda {

long long set_adamw_blocks(AdamWArguments& arguments) {
  long long blocks = 0;
  for (int i = 0; i < arguments.tensors; ++i) {
    arguments.all[i].first_block = static_cast<int>(blocks);
    blocks += (arguments.all[i].elements + kAdamWElements - 1) / kAdamWElements;
  }
  return blocks;
}

KernelLaunch adamw_launch(long long blocks) {
  return {.grid_x = static_cast<unsigned>(blocks), .threads = kAdamWThreads};
}

}  // namespace sparkpilot::cuda

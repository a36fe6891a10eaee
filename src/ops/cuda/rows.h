// Kernels that compute rows: their arguments, and the launches that they want.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// y[i] = exp(x[i] - max) / sum of exp(x[j] - max), over `size` elements that lie together, for `rows` rows.
struct SoftmaxArguments {
  const void* x;
  void* y;
  long long rows;
  int size;
};
constexpr int kSoftmaxWarpRow = 1024;
// A block for each row; rows of at most 1,024 elements: a warp for each, four to a block.
KernelLaunch softmax_launch(const SoftmaxArguments& arguments);

}  // namespace sparkpilot::cuda

// Kernels that compute rows, in fp32 whatever they are stored in: softmax and norms.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

// Rows of at most this many elements are read once, by a warp each; longer ones by a block each.
constexpr int kWarpRow = 1024;

// softmax_*: y[i] = exp(x[i] - max) / sum of exp(x[j] - max), `log`: its logarithm, over `size` elements of each of
// `rows` rows. Any alignment; rows of a multiple of eight elements at a multiple of 16 bytes are read in 16 bytes.
struct SoftmaxArguments {
  const void* x;
  void* y;
  long long rows;
  int size;
  bool log = false;
};
KernelLaunch softmax_launch(const SoftmaxArguments& arguments);

// norm_*, over each of `rows` rows of `size` elements:
enum class NormKind : uint8_t {
  layer,  // (x - mean) / sqrt(variance + epsilon) * gain + bias
  rms,    // x / sqrt(mean of x^2 + epsilon) * gain + bias
  l2,     // x / max(|x|, epsilon) * gain + bias, 0 / 0 being 0
};
struct NormArguments {
  const void* x;
  void* y;
  const float* gain;  // and bias: a row of f32 whatever the rows are stored in, or null
  const float* bias;
  long long rows;
  int size;
  float epsilon;
  NormKind kind;
};
KernelLaunch norm_launch(const NormArguments& arguments);

// softmax_strided_* and norm_strided_*: the same along the middle of [outer, size, inner], a thread for each row; for
// the axis of channels of an image that is not stored channels last.
struct SoftmaxStridedArguments {
  const void* x;
  void* y;
  long long outer;
  int size, inner;
  Divisor of_inner;  // make_divisor(inner); outer * inner is below 2^31
  bool log;
};
KernelLaunch softmax_strided_launch(const SoftmaxStridedArguments& arguments);
struct NormStridedArguments {
  NormArguments norm;  // rows: outer * inner, below 2^31
  int inner;
  Divisor of_inner;
};
KernelLaunch norm_strided_launch(const NormStridedArguments& arguments);

}  // namespace sparkpilot::cuda

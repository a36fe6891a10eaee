// A step of AdamW for many tensors in one launch: its arguments and the launch that it wants.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// Of one parameter, f32. Each output may be the input of the same name.
struct AdamWTensor {
  const float *x, *gradient, *m, *v;
  float *next_x, *next_m, *next_v;
  int elements, first_block;  // of those that work on it; set_adamw_blocks() sets it
};

// With g = scale gradient, in f32, and the bias corrections c1 = 1 - beta1^count and c2 alike, in double:
//   m' = beta1 m + (1 - beta1) g        v' = beta2 v + (1 - beta2) g^2
//   x' = (1 - rate weight_decay) x - rate / c1 m' / (sqrt(v') / sqrt(c2) + epsilon)
// A count below 1 gives NaN.
struct AdamWArguments {
  static constexpr int kMostTensors = 60;
  const float *rate, *scale;
  const long long* count;
  float beta1, beta2, epsilon, weight_decay;
  int tensors;
  AdamWTensor all[kMostTensors];
};
static_assert(sizeof(AdamWArguments) <= 4096);

// What a block of kAdamWThreads takes of a tensor.
constexpr int kAdamWThreads = 256, kAdamWElements = 16 * kAdamWThreads;

// Gives each tensor its blocks, which no two share; returns their number.
long long set_adamw_blocks(AdamWArguments& arguments);
KernelLaunch adamw_launch(long long blocks);

}  // namespace sparkpilot::cuda

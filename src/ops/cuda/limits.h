// Kernels that do one thing only, to measure a GPU's limits: limit_read, limit_copy, limit_fma_f32, limit_mma_f16,
// limit_mma_bf16, limit_empty. Blocks have kLimitThreads threads, in a grid of any size along x.
#pragma once

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

constexpr int kLimitThreads = 256;
constexpr int kLimitChains = 8;  // that a thread of limit_fma_f32, or a warp of limit_mma_*, has under way at once

struct LimitArguments {
  const void* from;  // limit_read, limit_copy: this many pieces of 16 bytes
  void* to;          // limit_copy: as many; the others: a float for each thread
  long long pieces;
  // limit_read, limit_copy: how often all pieces are moved. limit_fma_f32: multiply-adds of each chain; limit_mma_*:
  // products of 16 x 16 by 16 x 8 of each.
  int rounds;
};

KernelLaunch limit_launch(int blocks);

}  // namespace sparkpilot::cuda

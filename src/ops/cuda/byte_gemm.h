// What kernels of products of bytes share (byte_gemm.cuh): e4m3_gemm.h, and qgemm_* of quantized.h.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// The depth to which rows of weights are padded with zeros; rows of the other operand in a block; blocks for each 16
// rows of weights, whose 8 warps share the depth.
constexpr int64_t byte_gemm_depth(int64_t k) { return (k + 63) / 64 * 64; }
constexpr int byte_gemm_rows(int m) { return m > 8 ? 32 : 8; }
constexpr int64_t kMostByteRows = int64_t{65535} * 32;  // of a launch
KernelLaunch byte_gemm_launch(int m, int n);

}  // namespace sparkpilot::cuda

// Kernels of products of activations in NVFP4 by constant weights in NVFP4 (sparkpilot::ScaledGemm with a_scale), by
// the `mma` of 12.x that multiplies blocks of 16 with a scale each. Activations come as f32, f16 or bf16, and a lane
// rounds the blocks that it multiplies (tensor/small_floats.h), so no other kernel stands before. Names:
// nvfp4_gemm_<type of a and y>_<rows>, of a block, 8 or 32: scaled_gemm_rows().
#pragma once

#include "ops/cuda/scaled_gemm.h"

namespace sparkpilot::cuda {

// y[m, n] = epilogue(NVFP4(a[m, k]) x (codes[n, k] * block_scales[n, k / 16])^T * scales[n] + bias[n]), where scales
// are times input_scale, and NVFP4() leaves that out. Codes and block scales lie as in ScaledGemmArguments; the sign of
// a block scale is not read. NaN stays NaN.
struct Nvfp4GemmArguments : ScaledGemmArguments {
  float input_scale, six_scales;  // of all of a, and 6 times that
};

}  // namespace sparkpilot::cuda

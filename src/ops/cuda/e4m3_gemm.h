// Kernels of products of activations in E4M3 by constant weights in E4M3 (sparkpilot::ScaledGemm of codes). Names:
// e4m3_gemm_<rows>, from 8.9 on, where `mma` takes the codes; e4m3_gemm_decoded_<rows>, which decodes both to f16,
// where every code is exact. <rows>: of a block, 8 or 32.
#pragma once

#include "ops/cuda/byte_gemm.h"
#include "ops/cuda/epilogue.h"

namespace sparkpilot::cuda {

// y[m, n] = epilogue(a[m, k] x codes[n, k]^T * scales[n] + bias[n]), sums in f32. NaN stays NaN.
struct E4m3GemmArguments {
  const uint8_t* a;
  const uint8_t* codes;  // zeros from k to code_bytes
  const float* scales;   // [n], times what the kernel leaves out: e4m3_gemm_factor()
  const float* bias;     // [n] or null
  void* y;
  Storage storage;  // of y
  int m, n, k;
  long long code_bytes;  // of a row of weights: byte_gemm_depth()
  long long a_stride, y_stride;
  Epilogue epilogue;  // operands: row of y, column of y
};

constexpr float e4m3_gemm_factor(bool decoded) { return decoded ? 0x1p16f : 1; }

}  // namespace sparkpilot::cuda

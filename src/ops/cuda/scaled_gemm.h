// Kernels of products by constant weights of 8 and 4 bits, which are decoded in registers (sparkpilot::ScaledGemm):
// E4M3 with a scale for each column, and NVFP4 (tensor/small_floats.h). Bound by reading the weights once, as gemv.h's.
// Names: scaled_gemv_<codes>, one row of f32; scaled_gemm_<codes>_<storage>_<rows>, by the rows of a block (8 or 32),
// where codes is e4m3 or nvfp4, and storage that of a and y, f16 or bf16.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// y[m, n] = epilogue(a[m, k] x (codes[n, k] * block_scales[n, k / 16])^T * scales[n] + bias[n]).
//
// Codes lie in words of 32 bits as packed_codes() writes them, those of a row of weights together, zeros from k to a
// multiple of kScaledDepth. Code and block scale are both less than what f16 holds exactly: their product is exact in
// f16 and bf16, and sums are f32's.
struct ScaledGemmArguments {
  const void* a;
  const uint32_t* codes;
  const uint8_t* block_scales;  // E4M3 without NaN, nvfp4's only
  const float* scales;          // [n], times what the kernels leave out: scaled_gemm_factor()
  const float* bias;            // [n] or null
  void* y;
  int m, n, k;                   // m: 1 for scaled_gemv_*
  int warps_per_row;             // of scaled_gemv_*: gemv_warps_per_row()
  long long code_stride;         // words from row to row
  long long block_stride;        // bytes from row to row
  long long a_stride, y_stride;  // elements
  Epilogue epilogue;             // operands: row of y, column of y
};
constexpr int kScaledDepth = 64;  // that a warp takes at once; rows of codes are padded to it

enum class SmallCodes : uint8_t { e4m3, nvfp4 };

// Words of a row of codes, and bytes of its block scales (0 for e4m3).
constexpr int64_t scaled_code_words(SmallCodes codes, int64_t k) {
  const int64_t padded = (k + kScaledDepth - 1) / kScaledDepth * kScaledDepth;
  return padded / (codes == SmallCodes::e4m3 ? 4 : 8);
}
constexpr int64_t scaled_block_bytes(SmallCodes codes, int64_t k) {
  return codes == SmallCodes::e4m3 ? 0 : (k + kScaledDepth - 1) / kScaledDepth * (kScaledDepth / 16);
}
// Codes in the order of depth as a word. e4m3: four bytes; nvfp4: eight codes of four bits, one a byte.
uint32_t packed_codes(SmallCodes codes, const uint8_t* in_depth);
// What scales are multiplied by for a kernel: decoding leaves a power of two out.
float scaled_gemm_factor(SmallCodes codes, bool gemv, bool bfloat);

KernelLaunch scaled_gemv_launch(const ScaledGemmArguments& arguments);
// Up to 8 rows of a in a block, or up to 32; blocks for each 16 rows of weights, whose 8 warps share the depth.
constexpr int scaled_gemm_rows(int m) { return m > 8 ? 32 : 8; }
KernelLaunch scaled_gemm_launch(const ScaledGemmArguments& arguments, int rows);

}  // namespace sparkpilot::cuda

#include "ops/cuda/scaled_gemm.h"

#include "ops/cuda/gemv.h"

namespace sparkpilot::cuda {

uint32_t packed_codes(SmallCodes codes, const uint8_t* c) {
  // Kernels take neighbours in depth from the same places of the two halves of a word (scaled_gemm.cu).
  if (codes == SmallCodes::e4m3)
    return uint32_t{c[0]} | uint32_t{c[2]} << 8 | uint32_t{c[1]} << 16 | uint32_t{c[3]} << 24;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(c[2 * i] & 15) << 4 * i | static_cast<uint32_t>(c[2 * i + 1] & 15) << (16 + 4 * i);
  }
  return word;
}

float scaled_gemm_factor(SmallCodes codes, bool gemv, bool bfloat) {
  if (codes == SmallCodes::e4m3) return bfloat ? 1 : 0x1p8f;
  return gemv ? 0x1p14f : bfloat ? 0x1p8f : 0x1p7f;
}

KernelLaunch scaled_gemv_launch(const ScaledGemmArguments& p) {
  const int rows = kGemvWarps / p.warps_per_row;
  return {.grid_x = static_cast<unsigned>((p.n + rows - 1) / rows), .threads = kGemvWarps * 32};
}

KernelLaunch scaled_gemm_launch(const ScaledGemmArguments& p, int rows) {
  return {.grid_x = static_cast<unsigned>((p.n + 15) / 16),
          .grid_y = static_cast<unsigned>((p.m + rows - 1) / rows),
          .threads = 256};
}

}  // namespace sparkpilot::cuda

// sparkpilot::ScaledGemm's fast kernel: rows of f32 by weights in E4M3 or NVFP4 that stay so in memory.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

// The inputs of sparkpilot::ScaledGemm.
struct ScaledGemmInputs {
  static constexpr size_t kCodes = 1, kScale = 2, kBlockScales = 3, kBias = 4;
};

// `args` as for sparkpilot::Gemm, with the bias as `c`.
Acceptance gemm_small_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> gemm_small_prepare(const Problem& p, const GemmArgs& args);
void gemm_small_run(const Call& call);

}  // namespace sparkpilot

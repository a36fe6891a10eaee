// sparkpilot::ScaledGemm on a GPU: weights stay in 8 and 4 bits for up to kMostScaledRows rows of activations, in f16
// or bf16, or one row in f32; for more, whose products take longer than reading weights, and for rows of f32, they are
// decoded once and multiplied as sparkpilot::Gemm's. Any number of rows in E4M3 is multiplied as codes
// (coded_product_*).
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot::cuda {

constexpr int64_t kMostScaledRows = 64;

// `args` as for sparkpilot::Gemm, with the bias as `c`.
Acceptance scaled_product_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> scaled_product_prepare(const Problem& p, const GemmArgs& args);
std::vector<std::string> scaled_product_variants(const Problem& p, const GemmArgs& args);
void scaled_product_take_variant(const Problem& p, const GemmArgs& args, std::string_view variant, KernelState& state);
void scaled_product_run(const Call& call);

Acceptance coded_product_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> coded_product_prepare(const Problem& p, const GemmArgs& args);
void coded_product_run(const Call& call);

// With the attribute a_scale, on GPUs of compute capability 12.x (nvfp4_gemm.h).
Acceptance fp4_product_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> fp4_product_prepare(const Problem& p, const GemmArgs& args);
void fp4_product_run(const Call& call);

Acceptance decoded_product_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> decoded_product_prepare(const Problem& p, const GemmArgs& args);
std::vector<std::string> decoded_product_variants(const Problem& p, const GemmArgs& args);
void decoded_product_take_variant(const Problem& p, const GemmArgs& args, std::string_view variant, KernelState& state);

}  // namespace sparkpilot::cuda

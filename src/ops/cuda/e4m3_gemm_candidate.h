// sparkpilot::ScaledGemm of activations in E4M3 on a GPU, and what products of bytes share.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot::cuda {

// Constant weights of one byte each on the GPU, as kernels read them: rows of weights for each column of the result,
// padded with zeros to byte_gemm_depth().
std::shared_ptr<Buffer> upload_byte_rows(GpuDevice& gpu, const uint8_t* weights, const MatMulShape& shape);

// `args` as for sparkpilot::Gemm, with the bias as `c`.
Acceptance coded_product_accepts(const Problem& p, const GemmArgs& args);
std::unique_ptr<KernelState> coded_product_prepare(const Problem& p, const GemmArgs& args);
void coded_product_run(const Call& call);

}  // namespace sparkpilot::cuda

// Constant weights of products as kernels read them.
#pragma once

#include <memory>
#include <span>

#include "ops/cpu/onednn/gemm_onednn.h"
#include "tensor/gpu.h"

namespace sparkpilot::cuda {

// Rows of n, their depth together and padded to 16 bytes.
struct PackedWeights {
  std::shared_ptr<Buffer> memory;
  int64_t stride = 0;  // elements
};
// Packs B in `dtype` (f32, f16 or bf16), times alpha.
PackedWeights pack_weights(GpuDevice& gpu, const Tensor& weights, const GemmArgs& args, DType dtype);

// Weights of one byte each: rows of n, padded with zeros to byte_gemm_depth() (byte_gemm.h).
std::shared_ptr<Buffer> upload_byte_rows(GpuDevice& gpu, const uint8_t* weights, const MatMulShape& shape);

// The scales of n columns, times `factor`; `scale` has n of them or one for all.
std::shared_ptr<Buffer> upload_scales(GpuDevice& gpu, std::span<const float> scale, int64_t n, float factor);

}  // namespace sparkpilot::cuda

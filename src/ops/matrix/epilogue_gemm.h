// What sparkpilot::Gemm and ScaledGemm share: rows times B, [K, N], or [N, K] with `transB` = 1, plus bias, with an
// epilogue.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"
#include "ops/cpu/vector/epilogue_store.h"

namespace sparkpilot {

inline bool is_transposed(const Attributes& attrs) { return attrs.integer("transB", 0) != 0; }

inline MatMulShape epilogue_gemm_shape(const Attributes& attrs, const Shape& a, const Shape& b) {
  return gemm_shape(a, b, false, is_transposed(attrs));
}

// `bias`: its input.
inline GemmArgs epilogue_gemm_args(const Problem& p, size_t bias) {
  GemmArgs args{.shape = epilogue_gemm_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape)};
  if (p.has(bias)) args.c = static_cast<int>(bias);
  args.epilogue = Epilogue::of(p, args.shape.n);
  return args;
}

// Of the references, whose workspace holds the values before they are stored.
struct EpilogueGemmState : KernelState {
  explicit EpilogueGemmState(const Problem& p, GemmArgs made) : args(std::move(made)) {
    workspace = epilogue_store_bytes(p.outputs[0].dtype, p.outputs[0].shape.elements());
  }
  GemmArgs args;
};

}  // namespace sparkpilot

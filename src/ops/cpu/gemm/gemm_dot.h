// Products of bf16 rows with constant bf16 weights by the processor's dot products, or by its tiles: matrix products
// and 1x1 convolutions.
#pragma once

#include "ops/cpu/onednn/gemm_onednn.h"

namespace sparkpilot {

// As gemm_simd_accepts(), for bf16. The kernel "amx" takes what "dot" takes, on processors with tiles of bf16.
Acceptance gemm_dot_accepts(const Problem& p, const GemmArgs& args);
Acceptance gemm_amx_accepts(const Problem& p, const GemmArgs& args);
// "amx", "dot" or "onednn", whichever was measured to be the fastest on such a shape (AVX-512, one core).
std::string_view gemm_of_bf16(const GemmArgs& args);
std::unique_ptr<KernelState> gemm_dot_prepare(const Problem& p, const GemmArgs& args, bool amx);

// sparkpilot::Conv whose output positions are its input's: 1x1, one group, stride 1, channels last.
Acceptance conv_dot_accepts(const Problem& p);
Acceptance conv_amx_accepts(const Problem& p);
std::string_view conv_of_bf16(const Problem& p);
std::unique_ptr<KernelState> conv_dot_prepare(const Problem& p, bool amx);

void dot_run(const Call& call);

// How a result of rows by panels of columns is split: each piece is computed in f32 on the stack (by AMX a block at a
// time), goes through the epilogue there and is stored as bf16.
struct DotCut {
  static constexpr int64_t kFloats = 16384;  // of the stack's array; by AMX a piece may have more
  int64_t row_step = 0, panel_step = 0;
  int64_t blocks = 0, groups = 0;  // pieces along rows and along columns

  DotCut(int64_t rows, int64_t panels, int64_t depth, int64_t threads, bool amx);
};

}  // namespace sparkpilot

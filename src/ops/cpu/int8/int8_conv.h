// sparkpilot::QConv and sparkpilot::QGemm by the project's kernels (int8_gemm, int8_depthwise).
#pragma once

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/int8/int8_output.h"

namespace sparkpilot {

// The operands and attributes that both ops have in addition to X and W.
//   inputs: X, W, multiplier f32[C], bias i32[C] or absent, shift f32[C] or absent, x_zero of X's dtype or absent
//   attributes: x_zero (if it is not an input), y_dtype, y_zero, low, high
struct QuantizedOutput {
  DType dtype = DType::u8;
  double low = 0, high = 255, zero = 0;  // of bytes, in units of the output
  int64_t x_zero = 0;
  static QuantizedOutput of(const Attributes& attrs);  // fails (user)
  bool is_bytes() const { return dtype == DType::u8 || dtype == DType::i8; }
};

Acceptance int8_conv_accepts(const Problem& p);
std::unique_ptr<KernelState> int8_conv_prepare(const Problem& p);
void int8_conv_run(const Call& call);

Acceptance int8_gemm_accepts(const Problem& p);
std::unique_ptr<KernelState> int8_gemm_prepare(const Problem& p);
void int8_gemm_run(const Call& call);

}  // namespace sparkpilot

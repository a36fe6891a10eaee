// Vectorised float functions: the only place where exp, tanh, erf and similar functions are computed on the CPU.
//
// Every function exists for each instruction set (SSE2, AVX2, AVX-512, NEON); the best one is selected at run time. All
// work on arrays of `n` floats of any alignment; `out` may be an input; no other overlap is allowed. They are serial,
// allocate nothing, never throw, and give the same bits for an element wherever it is in the array.
//
// Accuracy: the largest relative error against the exact value, tested by vector_math_test.cc (kEps = 2^-23, one ulp is
// between kEps/2 and kEps): abs neg sqrt reciprocal floor ceil round sign and the piecewise linear activations are
// exact or correctly rounded; exp 1 kEps; expm1 2; log 2; erf 4; tanh 3; sigmoid 2; softplus 3; sin and cos 2 (near
// their zeros: absolute 1 kEps); silu 3; mish 5; elu, selu, celu 3; softsign 2. gelu_tanh and gelu_erf are within
// 4 kEps of |x|; in their negative tails, where the result is much smaller than x, the error is absolute.
//
// Special values: NaN gives NaN; infinities give the function's limit; a product such as silu(-inf) = -inf * 0 is NaN,
// as the formula says. Denormal results are kept by exp and flushed to zero by the functions built on it.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/activation.h"
#include "tensor/dtype.h"

namespace sparkpilot {

void apply_activation(Activation activation, float alpha, float beta, const float* in, float* out, int64_t n);

enum class UnaryMath : uint8_t {
  abs,
  neg,
  sign,
  floor,
  ceil,
  round,  // halves to even
  sqrt,
  reciprocal,
  square,
  exp,
  expm1,
  log,
  erf,
  sin,
  cos,
};
void vector_unary(UnaryMath op, const float* in, float* out, int64_t n);

// max and min are NaN if either operand is.
enum class BinaryMath : uint8_t { add, sub, mul, div, max, min };
void vector_binary(BinaryMath op, const float* a, const float* b, float* out, int64_t n);
void vector_scalar_binary(BinaryMath op, const float* a, float b, float* out, int64_t n);  // a[i] op b
void scalar_vector_binary(BinaryMath op, float a, const float* b, float* out, int64_t n);  // a op b[i]
// out[r, i] = a[r, i] op b[i]: a vector (bias, scale) over channels-last rows.
void rows_binary(BinaryMath op, const float* a, const float* b, float* out, int64_t rows, int64_t n);
// out[i] = a[i] * scale[i] + shift[i] (one rounding), for `rows` rows: folded normalisation over channels-last rows.
void rows_scale_shift(const float* a, const float* scale, const float* shift, float* out, int64_t rows, int64_t n);
// out[i] = a[i] * scale + shift (one rounding).
void vector_scale_shift(const float* a, float scale, float shift, float* out, int64_t n);
// sum[i] += a[i] * a[i]
void accumulate_squares(const float* a, float* sum, int64_t n);
// out[i] = a[i] * b[i] + c[i] (one rounding).
void vector_multiply_add(const float* a, const float* b, const float* c, float* out, int64_t n);

// --- rows to a number. Sums use several partial sums, so they differ from a serial sum by rounding (and are more
// accurate).
float row_max(const float* x, int64_t n);  // -infinity for n = 0; NaN if an element is
float row_min(const float* x, int64_t n);  // +infinity for n = 0; NaN if an element is
float row_sum(const float* x, int64_t n);
float row_sum_abs(const float* x, int64_t n);
float row_sum_squares(const float* x, int64_t n);
float row_sum_squares_about(const float* x, float mean, int64_t n);  // sum (x[i] - mean)^2
float row_dot(const float* a, const float* b, int64_t n);
// out[i] = exp(in[i] - shift); returns their sum. Softmax passes the row's maximum as shift, so that nothing overflows;
// -infinity gives exactly 0. Accuracy: 2 kEps if in[i] - shift is at least -20, 10 kEps below.
float exp_sub_sum(const float* in, float shift, float* out, int64_t n);
// out = exp(in - max) / sum(exp(in - max)) for `rows` rows of n elements.
void softmax_rows(const float* in, float* out, int64_t n, int64_t rows);

// --- conversions, rounding to nearest even.
void half_to_float_n(const Half* in, float* out, int64_t n);
void float_to_half_n(const float* in, Half* out, int64_t n);
void bfloat16_to_float_n(const BFloat16* in, float* out, int64_t n);
void float_to_bfloat16_n(const float* in, BFloat16* out, int64_t n);
void float_to_bfloat16_rows(const float* in, int64_t in_step, BFloat16* out, int64_t out_step, int64_t rows, int64_t n);
// The same by dtype (f32, f16 or bf16), from or to element `at` of an array.
void floats_from(DType dtype, const void* data, int64_t at, float* out, int64_t n);
void floats_to(DType dtype, const float* in, void* data, int64_t at, int64_t n);

// The instruction set that the functions above use on this machine: "AVX3", "AVX2", "NEON" ...
std::string_view vector_target();

}  // namespace sparkpilot

// Loops over plain types that the compiler vectorises, compiled once for each instruction set like vector_math.h.
// Serial; `out` may be an input of the same element size; no other overlap is allowed.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace sparkpilot {

enum class Comparison : uint8_t { equal, greater, greater_or_equal, less, less_or_equal };

// out[i] = a[i] op b[i] for f32, f64, booleans and integers; false where an operand is NaN.
void compare_n(Comparison op, DType dtype, const void* a, const void* b, bool* out, int64_t n);

enum class Integers : uint8_t { add, sub, rsub, mul, max, min, bit_and, bit_or, bit_xor };

// out[i] = a[i] op b[i] (rsub: b[i] - a[i]) for booleans and integers, which wrap; if not `b_steps`, b is one element.
void integers_n(Integers op, DType dtype, const void* a, const void* b, bool b_steps, void* out, int64_t n);

// out[i] = condition[i] ? a[i] : b[i] for elements of 1, 2, 4 or 8 bytes.
void select_n(int64_t bytes, const bool* condition, const void* a, const void* b, void* out, int64_t n);

// Whether cast_n supports the pair: f32, i32, i64, u8 and booleans, to each other.
bool can_cast_n(DType from, DType to);
// Floats become integers by truncation and saturation, NaN becomes 0; integers keep their low bits.
void cast_n(DType from, const void* in, DType to, void* out, int64_t n);

// Element by element: sets best[i] to x[i] and index[i] to `at` if x[i] is larger (or smaller if not `max`); the first
// NaN is kept. With `last`, equal elements replace it too.
void extreme_n(bool max, bool last, const float* x, int64_t at, float* best, int64_t* index, int64_t n);

}  // namespace sparkpilot

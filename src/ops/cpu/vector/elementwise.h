// The CPU loops of elementwise ops: they make kernels of functors (ops/elementwise/functors.h).
//
// There are two kinds of candidates. "reference" computes floats in double and integers in their type, block by block.
// "simd" computes f32 with vector_math.h, and f16 and bf16 too, converted in blocks. All loops split the output's
// elements among threads; an element's result does not depend on the split.
#pragma once

#include <memory>
#include <type_traits>

#include "base/parallel.h"
#include "ops/cpu/vector/broadcast.h"
#include "ops/cpu/vector/typed_loops.h"
#include "ops/cpu/vector/vector_math.h"

namespace sparkpilot {

// Elements that a task should have at least: starting a parallel region costs about a microsecond.
inline constexpr int64_t kGrain = 8192;
// The same for functions that take ten times as long as an addition.
inline constexpr int64_t kMathGrain = 2048;

// The type in which references compute: double for all floats.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<Compute<T>>, double, T>;

template <typename T, typename W>
T narrow(W value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) return T(static_cast<float>(value));
  else return static_cast<T>(value);
}

// An `accepts`: all inputs are f32, f16 or bf16, which the vector functions support.
Acceptance accepts_floats(const Problem& problem);

// --- one operand
template <typename T, typename W, typename R, typename Fn>
void map_unary(const Call& c, const Fn& fn) {
  const T* x = c.inputs[0].as<T>();
  R* y = c.outputs[0].as<R>();
  parallel_for(c.outputs[0].elements(), kMathGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = narrow<R>(fn(static_cast<W>(static_cast<Compute<T>>(x[i]))));
  });
}

// y = vector(x) for a function on floats: f32 directly, f16 and bf16 in blocks. `vector` is (in, out, n).
template <typename Vector>
void map_vector(const Call& c, const Vector& vector) {
  const ConstView& x = c.inputs[0];
  View& y = c.outputs[0];
  parallel_for(y.elements(), kMathGrain, [&](int64_t begin, int64_t end) {
    if (x.dtype == DType::f32) return vector(x.as<float>() + begin, y.as<float>() + begin, end - begin);
    alignas(64) float values[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      floats_from(x.dtype, x.data, i, values, n);
      vector(values, values, n);
      floats_to(y.dtype, values, y.data, i, n);
    }
  });
}

// --- several operands of one type
struct BroadcastState final : KernelState {
  explicit BroadcastState(Broadcast b) : plan(std::move(b)) {}
  Broadcast plan;
};
// A `prepare`: the Broadcast of all of the node's inputs, none of which may be absent.
std::unique_ptr<KernelState> prepare_broadcast(const Problem& problem);

// y = (...fn(fn(x0, x1), x2)...) for any number of operands of type T, computed in W. In-place safe: a block is read
// before it is written.
template <typename T, typename W, typename Fn>
void map_nary(const Call& c, const Broadcast& plan, const Fn& fn) {
  T* y = c.outputs[0].as<T>();
  parallel_for(plan.elements(), kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) W sum[kBlock], operand[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      const W* left = block(plan, 0, c.inputs[0].as<T>(), i, n, sum);
      for (size_t k = 1; k < c.inputs.size(); ++k) {
        const W* right = block(plan, static_cast<int>(k), c.inputs[k].as<T>(), i, n, operand);
        for (int64_t j = 0; j < n; ++j) sum[j] = fn(left[j], right[j]);
        left = sum;
      }
      for (int64_t j = 0; j < n; ++j) y[i + j] = narrow<T>(left[j]);
    }
  });
}

// Operand k's block as floats; it must be f32, f16 or bf16.
const float* float_block(const Call& c, const Broadcast& plan, int k, int64_t position, int64_t n, float* scratch);

// y = fn(x0, x1) in float for operands of f32, f16 and bf16 in any combination; y has x0's dtype.
template <typename Fn>
void map_float_binary(const Call& c, const Broadcast& plan, const Fn& fn) {
  View& y = c.outputs[0];
  parallel_for(plan.elements(), kMathGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float left[kBlock], right[kBlock];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = std::min(kBlock, end - i);
      const float* p = float_block(c, plan, 0, i, n, left);
      const float* q = float_block(c, plan, 1, i, n, right);
      for (int64_t j = 0; j < n; ++j) left[j] = fn(p[j], q[j]);
      floats_to(y.dtype, left, y.data, i, n);
    }
  });
}

// y = (...(x0 op x1) op x2 ...) for f32, f16 and bf16. Two operands are processed in whole runs unless these are short,
// more in blocks.
void map_vector_nary(const Call& c, const Broadcast& plan, BinaryMath op);

// The same for booleans and integers.
void map_integer_nary(const Call& c, const Broadcast& plan, Integers op);

// --- ready-made `infer` and `cases`
// Output 0 has input 0's type and shape.
inline void infer_same(InferContext& c) { c.output(0, c.dtype(0), c.shape(0)); }

}  // namespace sparkpilot

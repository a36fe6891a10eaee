// Applies an epilogue to four neighbours of a row, each step to all four.
#pragma once

#include "ops/cuda/epilogue.cuh"

namespace device {

// Two at a time, so that they need not wait for one another; all four would be twice the code in each kernel.
template <sparkpilot::Activation kFunction>
__device__ __forceinline__ void activate_four(float (&x)[4], float alpha, float beta) {
#pragma unroll 1
  for (int pair = 0; pair < 2; ++pair) {
    const float first = activate(kFunction, x[0], alpha, beta), second = activate(kFunction, x[1], alpha, beta);
    x[0] = x[2], x[1] = x[3], x[2] = first, x[3] = second;
  }
}

__device__ __forceinline__ void activate_four(sparkpilot::Activation function, float (&x)[4], float alpha, float beta) {
  using sparkpilot::Activation;
  switch (function) {
    case Activation::relu: return activate_four<Activation::relu>(x, alpha, beta);
    case Activation::leaky_relu: return activate_four<Activation::leaky_relu>(x, alpha, beta);
    case Activation::clip: return activate_four<Activation::clip>(x, alpha, beta);
    case Activation::hard_swish: return activate_four<Activation::hard_swish>(x, alpha, beta);
    case Activation::sigmoid: return activate_four<Activation::sigmoid>(x, alpha, beta);
    case Activation::silu: return activate_four<Activation::silu>(x, alpha, beta);
    case Activation::tanh: return activate_four<Activation::tanh>(x, alpha, beta);
    case Activation::gelu_tanh: return activate_four<Activation::gelu_tanh>(x, alpha, beta);
    case Activation::gelu_erf: return activate_four<Activation::gelu_erf>(x, alpha, beta);
    case Activation::elu: return activate_four<Activation::elu>(x, alpha, beta);
    default: return activate_four<Activation::shrink>(x, alpha, beta);  // NaN
  }
}

// Four elements that begin at a multiple of their bytes.
template <typename T>
__device__ __forceinline__ void load_four(const void* from, float (&out)[4]) {
  if constexpr (sizeof(typename T::Bits) == 4) {
    const uint4 four = load_16(from);
    out[0] = __uint_as_float(four.x), out[1] = __uint_as_float(four.y);
    out[2] = __uint_as_float(four.z), out[3] = __uint_as_float(four.w);
  } else {
    const uint2 pairs = load_8(from);
    const float2 a = T::values(pairs.x), b = T::values(pairs.y);
    out[0] = a.x, out[1] = a.y, out[2] = b.x, out[3] = b.y;
  }
}
// Elements `at` to at + 3, those from `count` on as 0; at once where that can be.
template <typename T>
__device__ __forceinline__ void load_four(const void* data, long long at, int count, float (&out)[4]) {
  using Bits = typename T::Bits;
  const Bits* const from = static_cast<const Bits*>(data) + at;
  if (count >= 4 && reinterpret_cast<uintptr_t>(from) % (4 * sizeof(Bits)) == 0) return load_four<T>(from, out);
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = i < count ? T::value(from[i]) : 0.0f;
}

template <typename T>
__device__ __forceinline__ void store_four(void* data, long long at, int count, const float (&in)[4]) {
  using Bits = typename T::Bits;
  Bits* const to = static_cast<Bits*>(data) + at;
  if (count >= 4 && reinterpret_cast<uintptr_t>(to) % (4 * sizeof(Bits)) == 0) {
    if constexpr (sizeof(Bits) == 4) {
      store_16(to, {__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]), __float_as_uint(in[3])});
    } else {
      store_8(to, {T::pair(in[0], in[1]), T::pair(in[2], in[3])});
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < count) to[i] = T::rounded(in[i]);
    }
  }
}

__device__ __forceinline__ void operand_four(const sparkpilot::cuda::EpilogueStep& step, long long row,
                                             long long column, int count, float (&out)[4]) {
  using sparkpilot::cuda::Storage;
  const long long at = row * step.row_stride + column * step.column_stride, size = step.storage == Storage::f32 ? 4 : 2;
  const char* const from = static_cast<const char*>(step.operand) + at * size;
  if (step.column_stride == 1 && count >= 4 &&
      reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(4 * size) == 0) {
    if (step.storage == Storage::f32) return load_four<F32>(from, out);
    if (step.storage == Storage::f16) return load_four<F16>(from, out);
    return load_four<BF16>(from, out);
  }
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {  // in turn, so that no place of `out` depends on i
    const float next = i < count ? operand_value(step.storage, step.operand, at + i * step.column_stride) : 0.0f;
    out[0] = out[1], out[1] = out[2], out[2] = out[3], out[3] = next;
  }
}

// Columns from column + count on are not there: no operand is read for them. Not inlined, as apply_epilogue.
template <typename Steps>
static __device__ __attribute__((noinline)) float4 apply_epilogue_four(const Steps& epilogue, const float4 value,
                                                                       long long row, long long column, int count) {
  float x[4] = {value.x, value.y, value.z, value.w};
#pragma unroll 1
  for (int i = 0; i < epilogue.count; ++i) {
    const sparkpilot::cuda::EpilogueStep& step = epilogue.steps[i];
    if (step.kind == sparkpilot::cuda::EpilogueStep::activation) {
      activate_four(step.function, x, step.alpha, step.beta);
      continue;
    }
    float y[4];
    operand_four(step, row, column, count, y);
    const bool add = step.kind == sparkpilot::cuda::EpilogueStep::add;
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = add ? x[j] + y[j] : x[j] * y[j];
  }
  return {x[0], x[1], x[2], x[3]};
}

}  // namespace device

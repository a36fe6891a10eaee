// Applies an epilogue to one element. Interpreted, not compiled in: measured by ptxas it costs one register.
#pragma once

#include "ops/cuda/epilogue.h"
#include "ops/cuda/storage.cuh"

namespace device {

// As ir/activation.h defines them. NaN stays NaN.
__device__ __forceinline__ float activate(sparkpilot::Activation function, float x, float alpha, float beta) {
  using sparkpilot::Activation;
  switch (function) {
    case Activation::relu: return x < 0.0f ? 0.0f : x;
    case Activation::leaky_relu: return x < 0.0f ? alpha * x : x;
    case Activation::clip: return min_nan(max_nan(x, alpha), beta);
    case Activation::hard_swish: return x * min_nan(max_nan(x * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f);
    case Activation::sigmoid: return 1.0f / (1.0f + expf(-x));
    case Activation::silu: return x / (1.0f + expf(-alpha * x));
    case Activation::tanh: return tanhf(x);
    case Activation::gelu_tanh: return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Activation::gelu_erf: return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
    case Activation::elu: return x < 0.0f ? alpha * expm1f(x) : x;
    default: return __uint_as_float(0x7fffffffu);  // the host lets no other through
  }
}

__device__ __forceinline__ float operand_value(sparkpilot::cuda::Storage storage, const void* data, long long at) {
  switch (storage) {
    case sparkpilot::cuda::Storage::f16: return half_value(static_cast<const uint16_t*>(data)[at]);
    case sparkpilot::cuda::Storage::bf16: return bfloat16_value(static_cast<const uint16_t*>(data)[at]);
    default: return static_cast<const float*>(data)[at];
  }
}

// Epilogue, or a struct like it with room for fewer steps. Not inlined: it is most of a small kernel's code, and
// compiled once for all kernels of a file. It is one of a kernel's arguments, which must be __grid_constant__ so that
// it has an address.
template <typename Steps>
static __device__ __attribute__((noinline)) float apply_epilogue(const Steps& epilogue, float x, long long row,
                                                                 long long column) {
#pragma unroll 1
  for (int i = 0; i < epilogue.count; ++i) {
    const sparkpilot::cuda::EpilogueStep& step = epilogue.steps[i];
    if (step.kind == sparkpilot::cuda::EpilogueStep::activation) {
      x = activate(step.function, x, step.alpha, step.beta);
    } else {
      const float y = operand_value(step.storage, step.operand, row * step.row_stride + column * step.column_stride);
      x = step.kind == sparkpilot::cuda::EpilogueStep::add ? x + y : x * y;
    }
  }
  return x;
}

}  // namespace device

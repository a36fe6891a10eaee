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

// A copy of an argument's epilogue in shared memory, which all threads of the block make together and may read behind
// the next barrier. A function that is not inlined reads an argument as global memory, which takes a kernel of few
// microseconds a tenth of its time for each step.
template <typename Steps>
__device__ __forceinline__ const Steps& shared_epilogue(const Steps& argument) {
  static_assert(sizeof(Steps) % 4 == 0);
  STATIC_SHARED(uint32_t, words, sizeof(Steps) / 4);
#pragma unroll 1
  for (unsigned i = threadIdx.x; i < sizeof(Steps) / 4; i += blockDim.x)
    words[i] = reinterpret_cast<const uint32_t*>(&argument)[i];
  return *reinterpret_cast<const Steps*>(words);
}

// The same where shared memory is free only later: a word for each thread, on its way meanwhile.
class EpilogueWord {
 public:
  static constexpr int kBytes = sizeof(sparkpilot::cuda::Epilogue);
  __device__ __forceinline__ explicit EpilogueWord(const sparkpilot::cuda::Epilogue& argument) {
    if (threadIdx.x < kWords) word_ = reinterpret_cast<const uint32_t*>(&argument)[threadIdx.x];
  }
  // To kBytes at a multiple of 8, behind a barrier and before the next.
  __device__ __forceinline__ const sparkpilot::cuda::Epilogue& put(void* memory) const {
    if (threadIdx.x < kWords) static_cast<uint32_t*>(memory)[threadIdx.x] = word_;
    return *static_cast<const sparkpilot::cuda::Epilogue*>(memory);
  }

 private:
  static constexpr unsigned kWords = kBytes / 4;  // a block has at least as many threads
  uint32_t word_ = 0;
};

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

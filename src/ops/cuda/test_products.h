// What tests of products and of attention share.
#pragma once

#include "ops/cuda/epilogue.h"
#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda {

inline size_t size_of(long long elements) { return static_cast<size_t>(elements); }

inline Storage storage_of(const TestStorage& storage) {
  return storage.dtype == DType::f32 ? Storage::f32 : storage.dtype == DType::f16 ? Storage::f16 : Storage::bf16;
}

}  // namespace sparkpilot::cuda

// What is applied to each element of a product or a convolution before it is stored, as kernels read it (the grammar:
// ir/op.h).
#pragma once

#include <cstdint>

#include "ir/activation.h"

namespace sparkpilot::cuda {

enum class Storage : uint8_t { f32, f16, bf16 };

struct EpilogueStep {
  enum Kind : uint8_t { activation, add, mul } kind;
  Activation function;
  Storage storage;  // of the operand
  float alpha, beta;
  const void* operand;                  // add, mul: operand[row * row_stride + column * column_stride]
  long long row_stride, column_stride;  // 0, 0: one element; 0, 1: one for each channel
};

struct Epilogue {
  static constexpr int kMostSteps = 8;
  int count = 0;
  EpilogueStep steps[kMostSteps];
};

}  // namespace sparkpilot::cuda

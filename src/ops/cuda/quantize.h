// Kernels between numbers and codes of 8 bits with one scale: QuantizeLinear, DequantizeLinear and
// DynamicQuantizeLinear.
#pragma once

#include "ops/cuda/launch.h"
#include "ops/cuda/strided.h"

namespace sparkpilot::cuda {

enum class ByteCode : uint8_t { u8, i8, e4m3 };

// quantize:    codes = code of x / scale + zero: the division is rounded once, whole numbers to even; they saturate.
// NaN
//              becomes NaN, in whole numbers the least. zero is 0 for e4m3.
// dequantize:  x = (codes - zero) * scale, rounded once to f32 and then to x's type.
struct QuantizeArguments {
  void *x, *codes;
  ElementType type;  // of x: f32, f16 or bf16
  ByteCode code;
  float scale;
  int zero;
  int elements;
};

// dynamic_quantize: u8 by the range of x and 0 (ops/quantized/dynamic_quantize.cc); NaN counts for nothing and becomes
// 0. One block, which goes through x twice: blocks cannot wait for one another.
struct DynamicQuantizeArguments {
  const float* x;
  uint8_t* codes;
  float* scale;
  uint8_t* zero;
  int elements;
};
constexpr int kMostDynamicElements = 1 << 20;
inline KernelLaunch dynamic_quantize_launch() { return {.threads = 512}; }

KernelLaunch quantize_launch(const QuantizeArguments& arguments);  // of both: quantize, dequantize

}  // namespace sparkpilot::cuda

// Kernels between numbers and codes of 8 bits with one scale: QuantizeLinear and DequantizeLinear.
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

KernelLaunch quantize_launch(const QuantizeArguments& arguments);  // of both: quantize, dequantize

}  // namespace sparkpilot::cuda

// Kernels between numbers and codes of 8 bits with one scale: QuantizeLinear, DequantizeLinear and
// DynamicQuantizeLinear; and from small floats with several scales to numbers.
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

// decode_scaled: x = value of a code * its scale, rounded once. Codes are E4M3, or E2M1 (two in a byte, the first in
// the low bits). Element (o, a, i), of which o lies before the axis that scales follow and i behind it, has the scale
// at o * outer_stride + a / block * axis_stride + i * inner_stride.
struct DecodeArguments {
  float* x;
  const void* codes;
  const float* scales;
  bool four_bits;
  int elements;
  int size, inner;  // indices of the axis, elements behind it
  int block;        // indices of the axis that share a scale
  int outer_stride, axis_stride, inner_stride;
};

// Of quantize, dequantize and decode_scaled: a thread takes eight elements.
KernelLaunch quantize_launch(int elements);

}  // namespace sparkpilot::cuda

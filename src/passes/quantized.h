// Reading quantized graphs: scales and zero points of one number, weights, and functions of one byte.
#pragma once

#include <optional>
#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// How bytes of a tensor stand for numbers: (q - zero) * scale.
struct Quantization {
  DType dtype = DType::u8;  // u8 or i8
  double scale = 1;
  int64_t zero = 0;
  bool operator==(const Quantization&) const = default;

  int64_t least() const { return dtype == DType::i8 ? -128 : 0; }
  int64_t most() const { return least() + 255; }
  // The byte that QuantizeLinear makes of a number; infinities are the ends.
  int64_t quantize(double v) const;
};

// A QuantizeLinear or DequantizeLinear node's, where scale and zero point are constants of one element and make sense:
// a normal, positive scale of f32, and bytes. Empty otherwise.
std::optional<Quantization> quantization_of(Edit& edit, NodeId node);

// The bytes behind a value that a DequantizeLinear made.
struct Dequantized {
  ValueId bytes;
  Quantization q;
};
std::optional<Dequantized> dequantized(Edit& edit, ValueId value);

// The QuantizeLinear that is the only use of the value, with its quantization; `node` absent where there is none.
struct Requantized {
  NodeId node;
  Quantization q;
};
Requantized requantized(Edit& edit, ValueId value);

// Constant weights as i8 without a zero point, one scale for each index of `axis`.
struct QuantizedWeights {
  Tensor bytes;
  std::vector<double> scales;
};
// Of a DequantizeLinear's output; empty where it is none of a constant, has its scales along another axis, or holds
// differences to the zero point that a byte cannot.
std::optional<QuantizedWeights> quantized_weights(Edit& edit, ValueId value, int axis);
// Of the operands themselves (QLinearConv and its kin); `scale` may be absent (1), `zero` too (0).
std::optional<QuantizedWeights> weights_without_zero(const Tensor& bytes, const Tensor* scale, const Tensor* zero,
                                                     int axis);

// Follows Relu and Clip while they are the value's only use, narrowing [low, high]; whether there were any.
bool absorb_clamps(Edit& edit, ValueId& y, double& low, double& high);

// 256 bytes: what the nodes from a DequantizeLinear to a QuantizeLinear, both included, make of each byte, one after
// the other. What they read besides is constant.
Tensor table_of(Edit& edit, std::span<const NodeId> chain);

// A convolution or product by constant weights as QConv or QGemm, whichever way it is written; false where it stays.
bool fuse_quantized_product(Edit& edit, NodeId id);

}  // namespace sparkpilot

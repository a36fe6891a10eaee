// Reads quantized graphs: scales and zero points per tensor, weights, and functions of one byte.
#pragma once

#include <optional>
#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// How the bytes of a tensor represent numbers: (q - zero) * scale.
struct Quantization {
  DType dtype = DType::u8;  // u8 or i8
  double scale = 1;
  int64_t zero = 0;
  bool operator==(const Quantization&) const = default;

  int64_t least() const { return dtype == DType::i8 ? -128 : 0; }
  int64_t most() const { return least() + 255; }
  // The byte that QuantizeLinear computes for a number; infinities saturate.
  int64_t quantize(double v) const;
};

// The quantization of a QuantizeLinear or DequantizeLinear node, if scale and zero point are constants of one element,
// the scale is f32, normal and positive, and the quantized type is u8 or i8. Empty otherwise.
std::optional<Quantization> quantization_of(Edit& edit, NodeId node);

// The quantized input of the DequantizeLinear that made a value.
struct Dequantized {
  ValueId bytes;
  Quantization q;
};
std::optional<Dequantized> dequantized(Edit& edit, ValueId value);

// The QuantizeLinear that is the only reader of the value, and its quantization; `node` is absent if there is none.
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
// The weights that a DequantizeLinear outputs. Empty if they are not constant, the scales are along another axis, or a
// difference to the zero point does not fit in a byte.
std::optional<QuantizedWeights> quantized_weights(Edit& edit, ValueId value, int axis);
// The same from the operands (QLinearConv and similar ops); `scale` may be absent (1), and `zero` too (0).
std::optional<QuantizedWeights> weights_without_zero(const Tensor& bytes, const Tensor* scale, const Tensor* zero,
                                                     int axis);

// Replaces a DequantizeLinear of constants by its result; returns whether it is one.
bool dequantize_constant(Edit& edit, NodeId node);

// Follows Relu and Clip nodes while each is the only use of the value, and narrows [low, high]. Returns whether there
// were any.
bool absorb_clamps(Edit& edit, ValueId& y, double& low, double& high);

// A table of 256 bytes: what a chain of nodes, from a DequantizeLinear to a QuantizeLinear inclusive, computes for each
// byte. All other inputs of the nodes are constants.
Tensor table_of(Edit& edit, std::span<const NodeId> chain);

// Replaces a convolution or product with constant weights by QConv or QGemm, in whichever form it is written. Returns
// whether it did.
bool fuse_quantized_product(Edit& edit, NodeId id);

}  // namespace sparkpilot

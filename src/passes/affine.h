// Nodes that scale and shift each channel by constants, and the convolutions and matrix products that such nodes can be
// folded into.
#pragma once

#include <optional>
#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// Reads a constant that broadcasts to `like` and varies only along `axis`: its value for each index of that axis.
std::optional<std::vector<double>> per_channel(const Tensor& tensor, const Shape& like, int axis);

// y = x * scale[c] + shift[c].
struct Affine {
  ValueId x;
  std::vector<double> scale, shift;
};
// Reads a Mul, Div, Add or Sub whose constant has one value per channel along `axis` of the output. (A
// BatchNormalization has been expanded to two of them.) Empty if the node is anything else.
std::optional<Affine> affine_of(Edit& edit, NodeId id, int axis);

// A Conv, ConvTranspose, Gemm or MatMul whose f32 weights are a constant with no other reader.
struct Linear {
  enum Kind { conv, conv_transpose, gemm, matmul } kind = conv;
  NodeId node;
  Tensor weights;
  std::vector<double> bias;  // by output channel; empty: no bias
  int64_t in_channels = 0, out_channels = 0;
  int64_t groups = 1;
  bool transposed = false;        // gemm with weights [N, K]
  bool padded = false;            // has padding: reads zeros outside the image
  int in_axis = 1, out_axis = 1;  // the channel axes of the input and the output; in_axis -1: cannot be scaled
  double alpha = 1;               // of a gemm: a factor on the product

  // Calls fn(weight, input channel, output channel) for each weight.
  template <typename Fn>
  void for_weights(Fn fn);
};
std::optional<Linear> linear_of(Edit& edit, NodeId id);
// Replaces `result` by a copy of the node with the weights and bias of `linear` and input x. Returns the new node;
// absent if the result is a constant.
NodeId rewrite(Edit& edit, const Linear& linear, ValueId x, ValueId result);

template <typename Fn>
void Linear::for_weights(Fn fn) {
  float* weight = weights.data<float>().data();
  const Shape& shape = weights.shape();
  const int64_t inner = shape.elements(2, shape.rank());
  const int64_t in_group = in_channels / groups, out_group = out_channels / groups;
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t column = 0; column < shape[1]; ++column) {
      int64_t in = row, out = column;  // matmul, and a gemm that is not transposed
      if (kind == conv) {
        in = row / out_group * in_group + column;
        out = row;
      } else if (kind == conv_transpose) {
        out = row / in_group * out_group + column;
      } else if (transposed) {
        in = column;
        out = row;
      }
      for (int64_t k = 0; k < inner; ++k) fn(*weight++, in, out);
    }
  }
}

}  // namespace sparkpilot

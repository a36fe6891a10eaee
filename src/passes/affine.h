// Nodes that scale and shift each channel by constants, and the convolutions and matrix products they can vanish into.
#pragma once

#include <optional>
#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// A constant that broadcasts to `like` and varies along `axis` at most: its value for each index there.
std::optional<std::vector<double>> per_channel(const Tensor& tensor, const Shape& like, int axis);

// y = x * scale[c] + shift[c].
struct Affine {
  ValueId x;
  std::vector<double> scale, shift;
};
// Reads a Mul, Div, Add or Sub with a constant per channel along `axis` of the output; a BatchNormalization has become
// two of them.
std::optional<Affine> affine_of(Edit& edit, NodeId id, int axis);

// A Conv, ConvTranspose, Gemm or MatMul whose f32 weights are a constant that nobody else reads.
struct Linear {
  enum Kind { conv, conv_transpose, gemm, matmul } kind = conv;
  NodeId node;
  Tensor weights;
  std::vector<double> bias;  // by output channel; empty: none
  int64_t in_channels = 0, out_channels = 0;
  int64_t groups = 1;
  bool transposed = false;        // gemm with weights [N, K]
  bool padded = false;            // reads zeros from beside the image
  int in_axis = 1, out_axis = 1;  // the channels' axes in the input and the output; in_axis -1: cannot be scaled
  double alpha = 1;               // of a gemm: a factor on the product

  // Calls fn(weight, input channel, output channel) for each weight.
  template <typename Fn>
  void for_weights(Fn fn);
};
std::optional<Linear> linear_of(Edit& edit, NodeId id);
// Puts the node with the weights and bias of `linear`, on x, in the place of `result`. Returns the node that it is now;
// absent where all of it was constant.
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

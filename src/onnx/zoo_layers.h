// Layers of neural networks as PyTorch's exporter writes them, for the zoo's models.
//
// Everything is fp16, batch 1, images NCHW. Nodes are named by scope as PyTorch names them
// ("/stages.0/blocks.1/fc1/Conv") and weights by path ("stages.0.blocks.1.fc1.weight"). A weight's contents depend only
// on the seed, its name, its shape and its scale, so a change to one layer does not change the others.
//
// Scales: weights are uniform with deviation gain / sqrt(fan-in), so a layer of gain 1 keeps the mean square of its
// input; after an activation that shrinks the signal a layer uses that activation's gain.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace sparkpilot {

// 1 / sqrt(E[f(x)^2]) for a standard normal x.
inline constexpr double kReluGain = 1.4142, kGeluGain = 1.5335;

struct ConvSpec {
  int64_t out = 0;  // channels
  int64_t kernel = 1, stride = 1, groups = 1;
  int64_t row_stride = 0;  // of rows, if another than that of columns
  double gain = 1;
  // Adds one to the weight at the kernel's centre of each channel's first input: a skip connection folded into the
  // weights, as reparameterised networks hold them.
  bool identity = false;
  // Normalisation of raw pixels, (x - mean) / deviation, folded into weights and bias.
  double mean = 0, deviation = 1;
};

class Layers {
 public:
  // The operator set of the real models, the last before LayerNormalization and Gelu became operators.
  static constexpr int kOpset = 14;

  // `fill` false leaves weights uninitialised, for counting parameters and work.
  Layers(Graph& graph, uint64_t seed, bool fill = true) : graph_(graph), seed_(seed), fill_(fill) {}

  // Names inside the scope's lifetime are below `name`.
  class Scope {
   public:
    Scope(Layers& layers, std::string_view name);
    ~Scope() { layers_.scopes_.pop_back(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Layers& layers_;
  };

  Graph& graph() { return graph_; }
  uint64_t seed() const { return seed_; }
  const Shape& shape(ValueId x) const { return *graph_.value(x).shape; }

  // --- plain nodes
  ValueId node(std::string_view op, std::vector<ValueId> inputs, Attributes attrs = {});
  std::vector<ValueId> nodes(std::string_view op, std::vector<ValueId> inputs, Attributes attrs, int outputs);
  // What is no weight: named as exporters name the results of Constant nodes, so that it is never trained.
  ValueId constant(Tensor tensor);
  ValueId scalar(double value);
  ValueId ints(std::initializer_list<int64_t> values);
  ValueId add(ValueId a, ValueId b) { return node("Add", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return node("Mul", {a, b}); }
  ValueId relu(ValueId x) { return node("Relu", {x}); }
  ValueId cast(ValueId x, DType dtype) { return node("Cast", {x}, {{"to", onnx_code(dtype)}}); }
  ValueId concat(std::vector<ValueId> parts, int64_t axis) {
    return node("Concat", std::move(parts), {{"axis", axis}});
  }
  ValueId reshape(ValueId x, std::initializer_list<int64_t> dims) { return node("Reshape", {x, ints(dims)}); }
  ValueId transpose(ValueId x, std::vector<int64_t> order);

  // --- weights: `name` is appended to the scope's path
  // Uniform in [middle - bound, middle + bound].
  ValueId uniform(std::string_view name, const Shape& shape, double bound, double middle = 0);

  // --- layers with weights; each is a separate scope
  ValueId conv(std::string_view name, ValueId x, const ConvSpec& spec);
  // Gemm on a matrix; [rows, in] -> [rows, out].
  ValueId linear(std::string_view name, ValueId x, int64_t out, double gain = 1);
  // MatMul and Add, on any rank.
  ValueId linear_tokens(std::string_view name, ValueId x, int64_t out, double gain = 1);
  // Over the last axis.
  ValueId layer_norm(std::string_view name, ValueId x);
  // Self-attention of tokens [1, T, C] with C / heads channels per head.
  ValueId attention(std::string_view name, ValueId x, int64_t heads);
  // relu(x + fc2(relu(fc1(x)))) on a matrix.
  ValueId residual_block(std::string_view name, ValueId x, int64_t hidden);
  // Scales the channels of [1, C, H, W] by a small network of their means.
  ValueId squeeze_excite(std::string_view name, ValueId x, int64_t hidden);
  // x times a learned factor near `scale`, along an axis of `shape`: keeps a deep residual network stable.
  ValueId layer_scale(std::string_view name, ValueId x, const Shape& shape, double scale);

  // --- layers without weights
  // Gelu by tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  ValueId gelu(ValueId x);
  // x / max(|x|, tiny) over axis 1 of a matrix.
  ValueId l2_normalize(ValueId x);

 private:
  std::string weight_name(std::string_view name) const;
  std::string node_name(std::string_view op);
  Tensor random_weight(const std::string& name, const Shape& shape, double bound, double middle) const;
  ValueId conv_bias(const Tensor& weight, const ConvSpec& spec);

  Graph& graph_;
  uint64_t seed_;
  bool fill_;
  std::vector<std::string> scopes_;
  std::map<std::string, int> used_;  // node names so far
};

}  // namespace sparkpilot

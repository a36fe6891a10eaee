// Quantizes a float graph in the standard form: with QuantizeLinear and DequantizeLinear around what is to run in
// integers, so that every engine that supports ONNX can run it.
//
// Activations are u8 with one scale and zero point per tensor, weights i8 with one scale per channel and no zero point,
// biases i32. Convolutions and products with constant weights are quantized, and so are sums, concatenations and pools
// between them. A Relu or Clip after one of these stays between it and the QuantizeLinear. Everything else stays in
// floats, and so do the graph's outputs.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

struct QuantizeOptions {
  std::set<std::string> exclude = {};  // names of nodes and ops that stay in floats
  std::set<NodeId> floats = {};        // further nodes that stay in floats
};

// Fails (user) if a name is neither a node's nor an op's.
void check_excluded(const Graph& graph, const std::set<std::string>& names);

// The range of values seen in a tensor.
struct ValueRange {
  double low = 0, high = 0;
};

struct QuantizePlan {
  std::vector<NodeId> nodes;     // nodes that will run in integers
  std::vector<ValueId> tensors;  // activations whose ranges must be measured
};

// Fails (user) naming a node if the graph has QuantizeLinear, DequantizeLinear or another op of quantized numbers.
void refuse_quantized(const Graph& graph);

// Chooses what to quantize. Types must be inferred. Fails (user) if a name in `exclude` is neither a node's nor an
// op's, or the model is quantized already.
QuantizePlan plan_quantization(Graph& graph, const QuantizeOptions& options);

// An integer bias: element i stands for integers[i] * steps[i].
struct QuantizedBias {
  ValueId integers;
  std::vector<float> steps;
};

struct QuantizedGraph {
  // The value that replaces each tensor of the plan: dequantized, f32.
  std::map<ValueId, ValueId> stands_for;
  std::map<NodeId, QuantizedBias> biases;  // of convolutions and Gemms, which all have a bias now
};

// Rewrites the graph. `ranges` must have every tensor of the plan. Ids of existing nodes and values stay valid. Fails
// (user) on a range that is not finite.
QuantizedGraph quantize_graph(Graph& graph, const QuantizePlan& plan, const std::map<ValueId, ValueRange>& ranges);

// --- equalising channels, because one scale per tensor is too coarse for its small channels
// Tensors between a convolution (optionally followed by a Relu) and a depthwise one. Their channels may be scaled
// freely, since the weights on both sides have one scale per channel.
std::vector<ValueId> free_channels(Graph& graph);
// Scales the channels so that all have the same largest magnitude; `reach` has the one seen in each channel. The graph
// computes the same except for rounding. (Nagel et al., "Data-free quantization through weight equalization and bias
// correction".)
void equalise_channels(Graph& graph, ValueId tensor, std::span<const double> reach);

}  // namespace sparkpilot

// A float graph as a quantized one in the standard form: QuantizeLinear and DequantizeLinear around what is to run in
// integers, so that every engine that knows ONNX can run it.
//
// Activations are u8 with a scale and a zero point for the tensor, weights i8 with a scale a channel and no zero point,
// biases i32. Convolutions and products with constant weights are quantized, and sums, concatenations and pools between
// them; a Relu or Clip behind one stays between it and the QuantizeLinear. Everything else stays in floats, and
// so do the graph's outputs.
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
  std::set<NodeId> floats = {};        // nodes that do besides
};

// What a tensor was seen to hold.
struct ValueRange {
  double low = 0, high = 0;
};

struct QuantizePlan {
  std::vector<NodeId> nodes;     // that will run in integers
  std::vector<ValueId> tensors;  // activations whose ranges are wanted
};

// Types are inferred. Fails (user) where a name in `exclude` is no node's and no op's, or the model is quantized
// already.
QuantizePlan plan_quantization(Graph& graph, const QuantizeOptions& options);

// A bias of integers: `steps` are what each of them counts.
struct QuantizedBias {
  ValueId integers;
  std::vector<float> steps;
};

struct QuantizedGraph {
  // For each tensor of the plan the value that stands for it now: dequantized, f32.
  std::map<ValueId, ValueId> stands_for;
  std::map<NodeId, QuantizedBias> biases;  // of convolutions and Gemms, which all have one now
};

// Rewrites the graph; `ranges` has every tensor of the plan. Ids of old nodes and values stay. Fails (user) on a range
// that is not finite.
QuantizedGraph quantize_graph(Graph& graph, const QuantizePlan& plan, const std::map<ValueId, ValueRange>& ranges);

// --- one scale for all channels of a tensor serves small channels badly
// Tensors between a convolution, with a Relu at most behind it, and a depthwise one: their channels may be scaled as
// one likes, since both weights have a scale a channel.
std::vector<ValueId> free_channels(Graph& graph);
// Scales the channels so that all reach as far; `reach` has the largest magnitude seen in each channel. The graph
// computes the same but for rounding. (Nagel et al., "Data-free quantization through weight equalization and bias
// correction".)
void equalise_channels(Graph& graph, ValueId tensor, std::span<const double> reach);

}  // namespace sparkpilot

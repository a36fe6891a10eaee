// The layers of a model that an adapter can change: convolutions and products with constant weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// A layer, named and shaped as a module of PyTorch.
struct Layer {
  // Where a PyTorch model has the module: "policy.temporal.attn.c_proj". It is the name of the weights without
  // ".weight" if they are named so; else the node's name without its op ("/h.0/attn/c_attn/MatMul" is
  // "h.0.attn.c_attn"); else "Conv_3", by the position among the model's nodes of that op. No two layers have the same.
  std::string path;
  bool conv = false;
  Shape weight;  // [out, in], or of a convolution [out, in / groups, kernel...]
  int64_t groups = 1;
  DType dtype = DType::none;  // as stored
  std::vector<NodeId> nodes;  // that multiply by these weights: several if the model uses the module several times
  ValueId constant;           // the weights
  bool transposed = false;    // the constant is [in, out]
  std::string cannot = {};    // why it takes no adapter ("depthwise"); empty if it does

  int64_t out() const { return weight[0]; }
  int64_t in() const { return weight.elements() / weight[0]; }  // of a convolution: all inputs of one output
};

// All layers, in the order of the nodes; those of bodies (If, Loop, Scan) are not looked for. Weights may be behind
// Cast, Transpose and Identity, as exporters write them. The graph is as load_onnx() gave it: passes change the names
// that paths are made of.
std::vector<Layer> find_layers(const Graph& graph);

// Which of the layers have a path that the regular expression (ECMAScript) matches as a whole. Fails (user) if it is
// none.
std::vector<bool> matching_layers(const std::vector<Layer>& layers, const std::string& pattern);

// Names the nodes of all layers by their paths, so that they are known when passes have changed their weights.
void name_layers(Graph& graph);

// The weights as f32, with the shape of Layer::weight.
Tensor layer_weights(const Graph& graph, const Layer& layer);

// Gives the layer other weights, of the shape of Layer::weight; they are rounded to its dtype. Other readers of the
// constant keep the old ones.
void set_layer_weights(Graph& graph, const Layer& layer, const Tensor& weights);

// A matrix of f32 with its axes exchanged.
Tensor transposed(const Tensor& matrix);

// A hash of all layers' paths, shapes and weights, as 16 hexadecimal digits: which base an adapter was made for.
std::string base_fingerprint(const Graph& graph);

}  // namespace sparkpilot

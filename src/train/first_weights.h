// Weights to begin a training with.
#pragma once

#include <map>
#include <span>
#include <string>

#include "ir/graph.h"
#include "train/samples.h"

namespace sparkpilot::train {

// Moves the biases of a network's layers so that on a batch of samples each channel's mean is 0, and scales their
// weights so that the mean square over all channels stays what it was. Random weights behind ReLU let a part that is
// the same for every sample grow from layer to layer until it is nearly all of the signal; it takes thousands of
// updates to unlearn. The idea of Mishkin and Matas, "All you need is a good init" (2016).
//
// Layers are Conv and Gemm with a bias, and MatMul with Add, whose weight and bias are in `weights` and read by nothing
// else. `inputs` are the graph's, in its order.
void centre_layers(Graph& graph, const std::map<ValueId, std::string>& weights, std::span<const Tensor> inputs);

// A batch of samples, spread over all of them: each field's values, [batch, ...].
std::map<std::string, Tensor> spread_batch(const Samples& samples, int64_t batch);

}  // namespace sparkpilot::train

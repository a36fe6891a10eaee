// A driving model's outputs are metres, radians and logits side by side: plans reach hundreds of metres, lane lines a
// few. An optimizer that moves every weight by about the same step learns the large ones slowly. So the last layers'
// weights are trained in units of their targets' deviations: W = s W', b = s b' + m, where s and m are deviation and
// mean of the target that the row predicts. What the network computes is the same; the file gets W and b.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "sparkpilot/onnx.h"
#include "train/samples.h"

namespace sparkpilot::train {

// Of each value of a network's flat output.
struct OutputUnits {
  std::vector<float> deviation, mean;
  std::vector<int64_t> log_scales;  // which values are log scales of a mean
};

// From up to `most` samples of a field in the layout of the slices, spread over all: deviations (at least 0.01) and
// means of the means of Laplacian heads with one hypothesis; for their log scales 1 and the logarithm of the deviation;
// 1 and 0 for all else.
OutputUnits output_units(const Samples& samples, std::string_view field, const OutputSlices& slices,
                         int64_t most = 256);

// A last layer whose rows are in these units. `scale` and `mean` name states of the graph, f32 [rows].
struct ScaledLayer {
  std::string weight, bias;  // names of the constants that they were
  std::string scale, mean;
  bool transposed = false;  // the weights are [in, out]
};

// Rewrites the layers whose results are concatenated into the graph's first output: Gemm with a bias, or MatMul and
// Add, behind Cast and Concat, and where something else is added to a Gemm. `weights` are the constants that will be
// trained; others stay as they are. Their contents become W' and b' (`fresh`: both 0, so that training begins at the
// targets' means). Nodes keep their names.
std::vector<ScaledLayer> scale_outputs(Graph& graph, const OutputUnits& units,
                                       const std::map<ValueId, std::string>& weights, const std::string& prefix,
                                       bool fresh);

// A first layer, whose convolution reads images of bytes: by names of constants.
struct ImageLayer {
  std::string weight, bias;
};

// Rewrites such layers for images with mean 128 and deviation 64: W = W' / 64, b = b' - 2 (sum of a filter's W').
// Weights that fit numbers of 0 to 255 are far smaller than an optimizer's step.
std::vector<ImageLayer> scale_images(Graph& graph, const std::map<ValueId, std::string>& weights);
// W and b of what was trained.
std::pair<Tensor, Tensor> unscaled_image_layer(const Tensor& weight, const Tensor& bias);

// W of W' (rows times the scale), b of b'.
Tensor unscaled_weight(const Tensor& weight, const Tensor& scale, bool transposed);
Tensor unscaled_bias(const Tensor& bias, const Tensor& scale, const Tensor& mean);

}  // namespace sparkpilot::train

// Quantizes a model file: calibrates it, writes it as standard ONNX, and compares it with the float model.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/calibrate.h"

namespace sparkpilot {

struct QuantizeModelOptions {
  CalibrationOptions calibration;
  QuantizeOptions graph;
  std::map<std::string, int64_t> dims;                        // sizes of named dimensions, fixed in the written file
  std::map<std::string, Shape> shapes;                        // and shapes of inputs
  std::vector<std::pair<std::string, std::string>> samples;   // for calibration: input's name (or empty), path
  std::vector<std::pair<std::string, std::string>> held_out;  // for comparison; empty: `samples`
  // Nodes with the largest errors stay in floats until no output's error is above this; empty: all are quantized.
  std::optional<double> max_error = {};
  bool equalise = true;        // channels between a convolution and a depthwise one (equalise_channels)
  bool correct_biases = true;  // keeps each convolution's mean; takes a run of the samples for each
  int threads = 0;
};

// Relative L2 against the floats over all samples.
struct QuantizedError {
  std::string name;
  double relative_l2 = 0;
  double worst = 0;  // of one sample
};

struct QuantizedModel {
  size_t samples = 0, compared = 0;
  int64_t nodes = 0, quantized = 0;  // convolutions and products; those in integers
  int opset = 0;
  std::vector<QuantizedError> kept;  // nodes that max_error left in floats, with the error of each alone
  std::vector<QuantizedError> outputs;
  std::vector<QuantizedError> tensors;  // quantized activations, the worst first
};

// Fails (user) with the reason if the model cannot be quantized, or if the output would replace an input; nothing is
// written then.
QuantizedModel quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              const QuantizeModelOptions& options,
                              const std::function<void(std::string_view what, double done)>& progress);

}  // namespace sparkpilot

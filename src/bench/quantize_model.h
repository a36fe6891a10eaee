// A model file as a quantized one: calibrated, written as standard ONNX, and held against the floats.
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
  std::map<std::string, int64_t> dims;                        // sizes of named dimensions, fixed in what is written
  std::map<std::string, Shape> shapes;                        // and shapes of inputs
  std::vector<std::pair<std::string, std::string>> samples;   // to calibrate with: input's name (or empty), path
  std::vector<std::pair<std::string, std::string>> held_out;  // to compare with; empty: those
  // Nodes that cost most stay in floats until no output's error is above this; empty: all are quantized.
  std::optional<double> max_error = {};
  bool equalise = true;        // channels between a convolution and a depthwise one (equalise_channels)
  bool correct_biases = true;  // so that each convolution's mean stays what it was; takes a run of the samples for each
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
  int64_t nodes = 0, quantized = 0;  // convolutions and products; of them in integers
  int opset = 0;
  std::vector<QuantizedError> kept;  // nodes that max_error left in floats, with what each alone would have cost
  std::vector<QuantizedError> outputs;
  std::vector<QuantizedError> tensors;  // quantized activations, the worst first
};

// Fails (user) with the reason where the model cannot be quantized, and where what is written would replace what is
// read; nothing is written then.
QuantizedModel quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              const QuantizeModelOptions& options,
                              const std::function<void(std::string_view what, double done)>& progress);

}  // namespace sparkpilot

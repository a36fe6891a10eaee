// Quantizes a model file: calibrates it, writes it as standard ONNX, and compares it with the float model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/quantize.h"
#include "bench/quantize_small.h"

namespace sparkpilot {

struct QuantizeModelOptions : QuantizeSettings {
  std::map<std::string, int64_t> dims;                        // sizes of named dimensions, fixed in the written file
  std::map<std::string, Shape> shapes;                        // and shapes of inputs
  std::vector<std::pair<std::string, std::string>> samples;   // for calibration: input's name (or empty), path
  std::vector<std::pair<std::string, std::string>> held_out;  // for comparison; empty: `samples`
};

struct QuantizedModel {
  size_t samples = 0, compared = 0;
  int64_t nodes = 0, quantized = 0;  // convolutions and products; those in integers
  int opset = 0;
  std::vector<QuantizedError> kept;  // nodes that max_error left in floats, with the error of each alone
  std::vector<QuantizedError> outputs;
  std::vector<QuantizedError> tensors;  // quantized activations, the worst first
};

// Fails (user) with the reason if the model cannot be quantized, if samples are not finite or tell no range, or if the
// output would replace an input; nothing is written then.
QuantizedModel quantize_model(const std::filesystem::path& from, const std::filesystem::path& to,
                              const QuantizeModelOptions& options, const QuantizeProgress& progress);

struct StoreModelOptions : SmallSettings {
  std::map<std::string, int64_t> dims;                        // sizes of named dimensions, fixed in the written file
  std::map<std::string, Shape> shapes;                        // and shapes of inputs
  std::vector<std::pair<std::string, std::string>> samples;   // to measure on; inputs without any are random
  std::optional<Samples> given;                               // instead of files
  std::vector<std::pair<std::string, std::string>> held_out;  // for comparison; empty: `samples`
};

struct StoredModel {
  size_t samples = 0, compared = 0;
  int opset = 0;
  std::vector<SmallLayer> layers;
  int64_t bytes = 0, kept_bytes = 0;    // of all constants that products read; if none was changed
  std::optional<double> error = {};     // SmallGraph::error
  LikelyWorst likely_worst = {};        // SmallGraph::likely_worst
  std::vector<QuantizedError> outputs;  // on what was held out; infinite where they hold NaN in f32
  std::string not_finite = {};          // not_finite_weights()
};

// Writes a model with weights in 8 and 4 bits behind DequantizeLinear: opset 19 or newer for E4M3, 23 for NVFP4. Fails
// (user) as quantize_model() does.
StoredModel store_model(const std::filesystem::path& from, const std::filesystem::path& to,
                        const StoreModelOptions& options, const QuantizeProgress& progress);

}  // namespace sparkpilot

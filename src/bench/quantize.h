// Quantizes a graph to int8 by the values that samples give its tensors.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/calibrate.h"
#include "bench/samples.h"
#include "passes/quantize_graph.h"

namespace sparkpilot {

struct QuantizeSettings {
  CalibrationOptions calibration;
  QuantizeOptions graph;
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

struct Int8Graph {
  Graph floats, graph;  // the same inputs, outputs and metadata; every value has a name
  // Values of `floats` and those of `graph` that stand for them: the outputs, then the quantized activations.
  std::vector<std::pair<ValueId, ValueId>> values;
  int64_t nodes = 0, quantized = 0;  // convolutions and products; those in integers
  std::vector<QuantizedError> kept;  // nodes that max_error left in floats, with the error of each alone
};

using QuantizeProgress = std::function<void(std::string_view what, double done)>;

// A model file's graph, its dimensions fixed, and the files that it was read from. Fails (user) if `to`, the file that
// will be written, is one of them or one of the samples' paths.
Graph load_apart(const std::filesystem::path& from, const std::filesystem::path& to,
                 std::initializer_list<const std::vector<std::pair<std::string, std::string>>*> samples,
                 const std::map<std::string, int64_t>& dims, const std::map<std::string, Shape>& shapes,
                 std::vector<std::filesystem::path>& read);

// The graph's own nodes in their newest forms and in f32, with batch norms folded into the adjacent weights, and
// every value named. Fails (user) if an input has open dimensions.
Graph plain_graph(Graph graph);
// The same for quantize(). Fails (user) if there is nothing to quantize, too.
Graph quantizable(Graph graph, const QuantizeOptions& options = {});

// The samples in the types of the graph's inputs. Fails (user) naming an input without samples.
Samples in_types_of(const Graph& graph, const Samples& samples);

// `samples` are of the graph's inputs; they may have other types. Fails (user) with the reason if the graph cannot be
// quantized.
Int8Graph quantize(Graph quantizable, const Samples& samples, const QuantizeSettings& settings,
                   const QuantizeProgress& progress);

// A model file's graph in int8, its open dimensions fixed as the session's options say, else as the samples have them.
// Fails (user) naming the file.
Graph int8_graph(const std::filesystem::path& file, const SessionOptions& session, const Samples& samples,
                 const QuantizeSettings& settings, const QuantizeProgress& progress);

// A session of the graph whose outputs are `values`, named by position: "0", "1" and so on.
Session session_of_values(Graph graph, const std::vector<ValueId>& values, int threads);

}  // namespace sparkpilot

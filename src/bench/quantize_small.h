// Chooses which weights of a graph are stored in 8 and 4 bits (passes/small_weights.h) by measuring what each costs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bench/quantize.h"
#include "bench/samples.h"
#include "passes/small_weights.h"

namespace sparkpilot {

struct SmallSettings {
  Precision precision = Precision::fp8;  // fp8 or fp4: the least that a weight may get
  std::set<std::string> exclude = {};    // names of nodes and ops whose weights stay as they are
  // The error of one sample: of the last runs of both sessions, which have the model's outputs and the same inputs.
  // Empty: the largest relative L2 of an output, infinite if one holds NaN.
  std::function<double(const Session& got, const Session& expected)> error = {};
  // Most of the weights that keep the error of every sample at most this, and likely_worst() of them, too; or the least
  // error with at most that many bytes of weights. At most one of them; none: all of the weights.
  std::optional<double> target_error = {};
  std::optional<int64_t> budget = {};
  std::map<std::string, double> largest = {};  // of activations, by name: those that fp8 products read are rounded too
  int threads = 0;
};

// One product of the plan.
struct SmallLayer {
  std::string name;
  WeightFormat format = WeightFormat::f32;  // as chosen
  DType kept_as = DType::f32;               // if it is not changed: exact_type()
  int64_t bytes = 0, kept_bytes = 0;        // of its weights with their scales; if it is not changed
  bool rounds_input = false;                // what it reads is rounded to E4M3, too
  std::map<WeightFormat, double> alone;     // the largest error of a sample with only this one stored so; if measured
};

// What other samples' errors will stay below if they are of the same kind: with 95 % confidence 99.9 % of them, taking
// the logarithms of errors for normal, those far below the others left out of account.
struct LikelyWorst {
  double error = 0;        // infinite if one of the errors is
  double independent = 0;  // as many independent samples would tell as much
};

// `groups` (Samples::groups) may resemble each other: how much their means differ says how many independent samples
// there are (N divided by Kish's design effect, 1 + (m - 1) * intraclass correlation). Fewer than kFewSamples tell too
// little of how errors vary: a tenth more than the largest.
LikelyWorst likely_worst(std::span<const double> errors, std::span<const size_t> groups = {});

struct SmallGraph {
  Graph floats, graph;  // the same inputs, outputs and metadata
  std::vector<SmallLayer> layers;
  int64_t bytes = 0, kept_bytes = 0;  // of all constants that products read; if none was changed
  std::optional<double> error = {};   // the largest of a sample, if a target or a budget was set
  LikelyWorst likely_worst = {};      // if there is `error`
  std::string not_finite = {};        // not_finite_weights()
};

// Bytes of weights of `elements` elements, with their scales: `depth` elements share an output channel.
int64_t weight_bytes(WeightFormat format, int64_t elements, int64_t depth);

// `graph` as quantizable() leaves it. Fails (user) if there are no weights to store, a name in `exclude` is neither a
// node's nor an op's, or no choice reaches the target or the budget, naming what can be reached.
SmallGraph store_small_weights(Graph graph, const Samples& samples, const SmallSettings& settings,
                               const QuantizeProgress& progress);

}  // namespace sparkpilot

// The values of a model's tensors on given inputs, and the ranges for quantizing them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/quantize_graph.h"
#include "runtime/session.h"

namespace sparkpilot {

enum class CalibrationMethod {
  min_max,     // the whole observed range
  percentile,  // without the outermost values
  entropy,     // the range, at least half of it, whose steps lose least information (Kullback-Leibler divergence)
};

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::percentile;
  double percentile = 99.99;  // share of the values within the range, in percent
};

// Samples of a model's inputs: for each input one tensor per sample, or a single one for all.
struct Samples {
  std::map<std::string, std::vector<Tensor>> inputs;
  size_t count = 0;
};

// Arrays of files by input: each file holds one sample, or several along the first axis if the input's first dimension
// is 1. A .npz holds arrays of several inputs under their names. A folder means the .npy and .npz files in it, by name.
// `named` are pairs of an input's name (empty: the only one, or those of the .npz) and a path. Fails (user) if names,
// shapes or counts do not fit the session's inputs.
Samples load_samples(const Session& session, const std::vector<std::pair<std::string, std::string>>& named);

// Writes sample i into the session's inputs.
void set_sample(Session& session, const Samples& samples, size_t i);

// Ranges of the outputs of `session` over all samples. `progress` is called with 0 to 1.
std::map<std::string, ValueRange> calibrate(Session& session, const Samples& samples, const CalibrationOptions& options,
                                            const std::function<void(double)>& progress);

// --- the parts (tests call them directly)
// Counts of values in equal parts of [low, high].
struct Histogram {
  static constexpr size_t kBins = 2048;
  double low = 0, high = 0;
  std::vector<double> counts = std::vector<double>(kBins);
  void add(std::span<const float> values);
};
ValueRange percentile_range(const Histogram& histogram, double percentile);
ValueRange entropy_range(const Histogram& histogram);

}  // namespace sparkpilot

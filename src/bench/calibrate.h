// What a model's tensors hold on given inputs, and the ranges to quantize them by.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/quantize_graph.h"
#include "runtime/session.h"

namespace sparkpilot {

enum class CalibrationMethod {
  min_max,     // everything that was seen
  percentile,  // without the outermost values
  entropy,     // the range, half of it at least, whose steps lose least information (Kullback-Leibler divergence)
};

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::percentile;
  double percentile = 99.99;  // share of the values that the range holds, in percent
};

// Samples of a model's inputs: for each input one tensor a sample, or a single one that stands for all.
struct Samples {
  std::map<std::string, std::vector<Tensor>> inputs;
  size_t count = 0;
};

// Arrays of files by input: each file holds one sample, or several along a first axis in the place of an input's first
// dimension of 1. A .npz holds arrays of several inputs under their names. A folder stands for the .npy and .npz files
// in it, by name. `named` are pairs of an input's name (empty: the only one, or those of the .npz) and a path. Fails
// (user) where names, shapes or counts do not fit the session's inputs.
Samples load_samples(const Session& session, const std::vector<std::pair<std::string, std::string>>& named);

// Writes sample i into the session's inputs.
void set_sample(Session& session, const Samples& samples, size_t i);

// Ranges of the outputs of `session` over all samples. `progress` is called with 0 to 1.
std::map<std::string, ValueRange> calibrate(Session& session, const Samples& samples, const CalibrationOptions& options,
                                            const std::function<void(double)>& progress);

// --- the parts (tests call them directly)
// How often values fell into equal parts of [low, high].
struct Histogram {
  static constexpr size_t kBins = 2048;
  double low = 0, high = 0;
  std::vector<double> counts = std::vector<double>(kBins);
  void add(std::span<const float> values);
};
ValueRange percentile_range(const Histogram& histogram, double percentile);
ValueRange entropy_range(const Histogram& histogram);

}  // namespace sparkpilot

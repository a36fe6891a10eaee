// The values of a model's tensors on given inputs, and the ranges for quantizing them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/samples.h"
#include "passes/quantize_graph.h"
#include "runtime/session.h"

namespace sparkpilot {

enum class CalibrationMethod {
  min_max,     // the whole observed range
  percentile,  // without the outermost values
  entropy,     // the range, at least half of it, whose steps lose least information (Kullback-Leibler divergence)
};

// "min-max", "percentile", "entropy"; fails (user) on another name.
CalibrationMethod calibration_method(std::string_view name);

struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::percentile;
  double percentile = 99.99;  // share of the values within the range, in percent
};

// Ranges of the outputs of `session` over all samples. `progress` is called with 0 to 1. `label` says what an output is
// called in messages; empty: by its name. Fails (user) if one holds a value that is not finite.
std::map<std::string, ValueRange> calibrate(Session& session, const Samples& samples, const CalibrationOptions& options,
                                            const std::function<void(double)>& progress,
                                            const std::function<std::string(const std::string&)>& label = {});

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

// Statistics of a series of measurements.
#pragma once

#include <cstdint>
#include <span>

namespace sparkpilot {

struct Statistics {
  int64_t count = 0;
  double mean = 0, min = 0, max = 0;
  // Percentiles: the smallest sample that at least that share of all samples does not exceed (nearest rank).
  double p50 = 0, p90 = 0, p99 = 0;
};

// All zero for no samples.
Statistics summarize(std::span<const double> samples);

}  // namespace sparkpilot

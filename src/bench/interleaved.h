// Times several things in turns, so that a machine whose speed drifts does not favour one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/statistics.h"

namespace sparkpilot {

struct InterleavedOptions {
  int64_t rounds = 12;
  // Of each thing in each round: as many runs as take this long, and no less than `min_runs`.
  double round_ms = 50;
  int64_t min_runs = 3;
  std::function<void(double done)> progress = {};  // between rounds, 0 to 1
};

struct InterleavedTimes {
  std::vector<double> ms;      // of every run
  std::vector<double> rounds;  // the median of each round, ms
};

// Calls each of `runs` many times: once before the first round, then round by round, every other round in reverse
// order. One result for each.
std::vector<InterleavedTimes> time_interleaved(std::span<const std::function<void()>> runs,
                                               const InterleavedOptions& options = {});

}  // namespace sparkpilot

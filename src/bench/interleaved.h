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

// Runs something `count` times and returns each run's time in ms. Fewer times: it cannot be run any more.
using TimedRuns = std::function<std::vector<double>(int64_t count)>;
// Something whose runs are timed here.
TimedRuns timed(std::function<void()> run);

// Runs each of `things` many times: once before the first round, then round by round, every other round in reverse
// order. One result for each. What returned fewer times than asked has no results and is not run again.
std::vector<InterleavedTimes> time_interleaved(std::span<const TimedRuns> things,
                                               const InterleavedOptions& options = {});
std::vector<InterleavedTimes> time_interleaved(std::span<const std::function<void()>> runs,
                                               const InterleavedOptions& options = {});

}  // namespace sparkpilot

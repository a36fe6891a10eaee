// The memory that sparkpilot and a worker of a user's algorithm share (docs/algorithms.md has the same table).
#pragma once

#include <cstddef>

#include "sparkpilot/algorithm.h"

namespace sparkpilot::sim {

inline constexpr size_t kMostAlgorithmParameters = 128;
inline constexpr size_t kWorldsOfWorker = 512;  // at once: room for as many

// Where workers find it.
inline constexpr int kAlgorithmMemoryFd = 3;

// Behind each other, without gaps. sparkpilot writes all but `out`; the worker writes `out`, which is not trusted.
struct AlgorithmMemory {
  double parameters[kMostAlgorithmParameters];
  SparkpilotCar cars[kWorldsOfWorker];
  SparkpilotObservation seen[kWorldsOfWorker];
  SparkpilotOutput out[kWorldsOfWorker];
};

static_assert(sizeof(SparkpilotCar) == 96 && sizeof(SparkpilotObservation) == 96 && sizeof(SparkpilotOutput) == 8);
static_assert(sizeof(AlgorithmMemory) == 1024 + 512 * (96 + 96 + 8));

}  // namespace sparkpilot::sim

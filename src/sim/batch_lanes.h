// The kernels of batch.cc, compiled for each of Highway's targets.
#pragma once

#include "sim/world.h"

namespace sparkpilot::sim {

struct LaneRun {
  Lateral lateral;
  Tyres tyres;
  uint64_t seed;
  int warm_up;
  bool noise;
  int first, last;  // steps
};

// Worlds in a vector of this processor.
int lane_count();

// Steps `groups` groups of lane_count() worlds. Each group's constants, state and rings are arrays [field][world],
// those of the groups behind each other, aligned to 64 bytes.
void advance_lanes(const LaneRun& run, int groups, const float* constants, float* states, float* rings);

}  // namespace sparkpilot::sim

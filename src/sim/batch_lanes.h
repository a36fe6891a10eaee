// The kernels of batch.cc, compiled for each of Highway's targets.
#pragma once

#include "sim/world.h"

namespace sparkpilot::sim {

struct LaneRun {
  Lateral lateral;
  Tyres tyres;
  uint64_t seed;
  int warm_up;
  bool noise, leads, rich_courses;
  int steps;
  int plans;  // rows of a world's table
};

// The instructions that advance_lanes() takes: "AVX3".
const char* lane_target();

// Worlds in a vector of this processor.
int lane_count();

// Each group's constants, state (memory for it) and rings are arrays [field][world], those of the groups behind each
// other, aligned to 64 bytes; `tables` is [group][plan][field][world], null if no world has one.
struct LaneArrays {
  const float* constants;
  float *states, *rings;
  const float* tables;
  const float* mpc_constants;  // of the planner (sim/mpc_planner-inl.h), as those above
  float* mpc_states;           // null if no world has it
};

// Steps `groups` groups of lane_count() worlds from their beginning.
void advance_lanes(const LaneRun& run, int groups, const LaneArrays& arrays);

// Those of one controller.
void advance_pid(const LaneRun& run, int groups, const LaneArrays& arrays);
void advance_torque(const LaneRun& run, int groups, const LaneArrays& arrays);
void advance_angle(const LaneRun& run, int groups, const LaneArrays& arrays);
void advance_mppi(const LaneRun& run, int groups, const LaneArrays& arrays);

}  // namespace sparkpilot::sim

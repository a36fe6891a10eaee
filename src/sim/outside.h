// A step of worlds whose commands come from outside (sim/world_stepper.h), compiled for each of Highway's targets.
#pragma once

#include <cstdint>

#include "sim/world.h"

namespace sparkpilot::sim {

inline constexpr double kPreview[] = {0.5, 1, 2, 3};  // s: how far ahead the lane's curvature is told
inline constexpr int kPreviews = 4;

// What is told of a world, all numbers: sim/world_stepper.cc has their names. The step's costs are means over the steps
// of a call.
inline constexpr int kOutsideFeatures = 22;
inline constexpr int kOutsideCosts = 7;

struct OutsideCall {
  Tyres tyres;
  uint64_t seed;
  bool noise, leads, rich_courses, tables;
  bool longitudinal;  // the powertrain's command comes from outside too
  bool first, last;   // of the calls that make one: costs begin at 0; what there is to see is written
  int slot;           // of the rings
  int steps;          // at most kStepsPerPlan
  uint32_t due;       // bit i: behind step i some world's plan is due
};

// A group of lane_count() worlds: arrays [field][world] of OutsideInput, constants, state, rings, of kOutsideFeatures
// features and of the planner mpc (sim/mpc_planner-inl.h), each aligned to 64 bytes.
struct OutsideArrays {
  const float *inputs, *constants;
  float *states, *rings, *features;
  const float* mpc_constants;
  float* mpc_states;  // null if no world has that planner
};
void advance_outside_torque(const OutsideCall& call, const OutsideArrays& arrays);
void advance_outside_angle(const OutsideCall& call, const OutsideArrays& arrays);

}  // namespace sparkpilot::sim

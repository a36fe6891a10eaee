// Steps of simulated worlds (sim/worlds.cu): arguments and the launch that they want. What a world's floats mean is
// said in sim/world-inl.h.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// Worlds lie in groups of a warp's threads: a group's constants, state and rings are arrays [field][world], those of
// the groups behind each other.
struct WorldsArguments {
  const float* constants;
  float* states;  // what they are at the end
  float* rings;
  unsigned long long seed;
  int groups;
  int steps;
  int warm_up;                     // steps that enter no figure
  int noise, leads, rich_courses;  // 1: any world has some
  const float* const* tables;      // of each world [plan][field], null if it has none; null if no world has one
};

// Steps of worlds whose commands come from outside (sim/outside-inl.h), in the same groups and layout. A world keeps
// its own time, so its plan is due where its input says.
struct SteppedWorldsArguments {
  const float* inputs;
  const float* constants;
  float *states, *rings;
  float* seen;  // kSteppedNumbers of each world, written where `last`
  unsigned long long seed;
  int groups;
  int tyres;  // sim::Tyres
  int noise, leads, rich_courses, tables, longitudinal, first, last;
  int slot, steps;  // of the rings; at most a plan's
};

// Rows of numbers to the places of worlds: row i to world[i].
struct PutWorldsArguments {
  const float* rows;  // [count][fields]
  const int* world;
  float* to;  // [group][field][world]
  int count, fields;
};

constexpr int kWorldsOfGroup = 32, kWorldsThreads = 128;

inline KernelLaunch worlds_launch(int groups) {
  constexpr int kGroups = kWorldsThreads / kWorldsOfGroup;
  return {.grid_x = static_cast<unsigned>((groups + kGroups - 1) / kGroups), .threads = kWorldsThreads};
}

inline KernelLaunch put_worlds_launch(const PutWorldsArguments& p) {
  const int64_t numbers = int64_t{p.count} * p.fields;
  return {.grid_x = static_cast<unsigned>((numbers + kWorldsThreads - 1) / kWorldsThreads), .threads = kWorldsThreads};
}

}  // namespace sparkpilot::cuda

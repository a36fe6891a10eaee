// Steps of simulated worlds (sim/worlds.cu): arguments and the launch that they want. What a world's floats mean is
// said in sim/world-inl.h.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

// Worlds lie in groups of a warp's threads: a group's constants, state and rings are arrays [field][world], those of
// the groups behind each other. `rings` begin as zeros.
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

constexpr int kWorldsOfGroup = 32, kWorldsThreads = 128;

inline KernelLaunch worlds_launch(int groups) {
  constexpr int kGroups = kWorldsThreads / kWorldsOfGroup;
  return {.grid_x = static_cast<unsigned>((groups + kGroups - 1) / kGroups), .threads = kWorldsThreads};
}

}  // namespace sparkpilot::cuda

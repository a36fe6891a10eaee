// run_worlds() on a GPU.
#pragma once

#include "sim/batch.h"

namespace sparkpilot::sim {

// The sentence of the error of such worlds.
inline constexpr const char* kMpcOnGpu =
    "sim: the planner mpc runs on the CPU only: its solver's numbers do not fit into the registers of a GPU's thread";

// As run_worlds(), on options.gpu.
std::vector<WorldResult> run_worlds_on_gpu(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                           const BatchOptions& options);

}  // namespace sparkpilot::sim

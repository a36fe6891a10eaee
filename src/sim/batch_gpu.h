// run_worlds() on a GPU.
#pragma once

#include <string_view>

#include "sim/batch.h"

namespace sparkpilot::sim {

// Why a GPU does not run worlds with these; empty if it does.
constexpr std::string_view not_on_gpu(Lateral lateral, Planner planner) {
  if (planner == Planner::mpc) {
    return "sim: the planner mpc runs on the CPU only: its solver's numbers do not fit into the registers of a GPU's "
           "thread";
  }
  return lateral == Lateral::mppi ? "sim: lateral_mppi runs on the CPU only: its samples' costs do not fit into the "
                                    "registers of a GPU's thread"
                                  : "";
}

// As run_worlds(), on options.gpu.
std::vector<WorldResult> run_worlds_on_gpu(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                           const BatchOptions& options);

}  // namespace sparkpilot::sim

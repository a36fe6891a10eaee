// The part of `sparkpilot bench` that says what a GPU did.
#pragma once

#include <string>
#include <vector>

#include "bench/turns.h"
#include "cli/bench_repeats.h"

namespace sparkpilot::cli {

// Tables of where the time of a run goes and of the GPU's load, for the models that ran on one; empty if none did.
std::string gpu_tables(const std::vector<BenchVariant>& variants, const std::vector<Measured>& models);

// A GPU's measured limits.
std::string gpu_limits_table(const GpuFigures& figures);

}  // namespace sparkpilot::cli

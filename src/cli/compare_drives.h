// The part of `sparkpilot compare` that compares finished drives.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace sparkpilot::cli {

// Whether a path is a drive's folder or a log, not a model.
bool is_drive(const std::string& path);

// Reports the differences of the others from the first; returns the exit code. `max_plan_error`: the limit of the
// plans' distance in 99 % of the frames, at each horizon, m; 0: none.
int compare_drives(const Program& program, const std::vector<std::string>& paths, double max_plan_error);

}  // namespace sparkpilot::cli

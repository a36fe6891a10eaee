// sparkpilot sim compare: whether one run of scenarios drives worse than another.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_compare(Program& program, Command group);

}  // namespace sparkpilot::cli

// sparkpilot sim list: what can be simulated.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_list(Program& program, Command group);

}  // namespace sparkpilot::cli

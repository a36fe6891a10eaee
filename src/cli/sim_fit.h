// sparkpilot sim fit: a car's numbers from a recorded drive.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_fit(Program& program, Command group);

}  // namespace sparkpilot::cli

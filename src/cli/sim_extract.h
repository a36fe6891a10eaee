// sparkpilot sim extract: a recorded drive as courses.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_extract(Program& program, Command group);

}  // namespace sparkpilot::cli

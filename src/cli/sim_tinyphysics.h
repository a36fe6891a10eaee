// sparkpilot sim tinyphysics: comma's controls challenge.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_tinyphysics(Program& program, Command group);

}  // namespace sparkpilot::cli

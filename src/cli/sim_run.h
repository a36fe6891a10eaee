// sparkpilot sim run: an algorithm in scenarios.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_run(Program& program, Command group);

}  // namespace sparkpilot::cli

// sparkpilot sim tune: an algorithm's parameters with the least cost over scenarios.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_tune(Program& program, Command group);

}  // namespace sparkpilot::cli

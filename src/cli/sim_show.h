// sparkpilot sim show: one world as numbers and pictures.
#pragma once

#include "cli/command.h"

namespace sparkpilot::cli {

void add_sim_show(Program& program, Command group);

}  // namespace sparkpilot::cli

// Where flags, environment, configuration file and defaults meet. For its settings the program reads the system here
// and nowhere else.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "config/tool_environment.h"

namespace sparkpilot::cli {

// Fills the program's configuration file and settings once the command line is parsed; says on stderr what could not be
// taken. Fails (user) on a wrong flag, and on a wrong --config.
void take_settings(Program& program);

// What of this machine the choice of a device depends on. Asked once.
const DeviceFacts& this_device_facts();

// A variable of the environment; empty where it is not set.
std::optional<std::string> variable(const char* name);

}  // namespace sparkpilot::cli

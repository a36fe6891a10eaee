// A machine as JSON, for `doctor --json` and recordings that people read. Keys carry their unit; values that the
// machine does not report are null.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sparkpilot/machine.h"

namespace sparkpilot {

nlohmann::json machine_json(const Machine& machine);

}  // namespace sparkpilot

// A profile (sparkpilot/session.h) as a trace; its limits are roofline.h's.
#pragma once

#include <string>

#include "sparkpilot/session.h"

namespace sparkpilot {

// Chrome's trace format (JSON object with `traceEvents`), which Perfetto's viewer reads too.
std::string chrome_trace(const Profile& profile, const std::string& process);

}  // namespace sparkpilot

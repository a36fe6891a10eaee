// Writes a profile (sparkpilot/session.h) as a trace. (The limits in it are computed by roofline.h.)
#pragma once

#include <string>

#include "sparkpilot/session.h"

namespace sparkpilot {

// Chrome's trace format (JSON object with `traceEvents`), which Perfetto's viewer reads too.
std::string chrome_trace(const Profile& profile, const std::string& process);

}  // namespace sparkpilot

// What becomes of a profile (sparkpilot/session.h).
#pragma once

#include <string>

#include "sparkpilot/session.h"

namespace sparkpilot {

// Fills roofline_share from the limits of this machine for `threads` threads; returns the whole run's share.
double set_roofline(Profile& profile, int threads);

// Chrome's trace format (JSON object with `traceEvents`), which Perfetto's viewer reads too.
std::string chrome_trace(const Profile& profile, const std::string& process);

}  // namespace sparkpilot

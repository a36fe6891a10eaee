// The folder that a run writes into.
#pragma once

#include "drive/drive.h"

namespace sparkpilot::drive {

// Fails (user) if options.out or options.dump holds a recording or is the route being driven, or if options.out holds
// the results of another route (the folder must be readable as one route) or a summary.json of another program. Writes
// nothing.
void check_output_folder(const Route& route, const DriveOptions& options);

}  // namespace sparkpilot::drive

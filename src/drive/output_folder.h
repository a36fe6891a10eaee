// The folder that a run writes into.
#pragma once

#include "drive/drive.h"

namespace sparkpilot::drive {

// Fails (user) where options.out or options.dump holds a recording or is the route that is driven, and where
// options.out holds the results of another route (it is to be read as one) or a summary.json of another program. Writes
// nothing.
void check_output_folder(const Route& route, const DriveOptions& options);

}  // namespace sparkpilot::drive

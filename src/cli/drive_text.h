// A drive's report for people.
#pragma once

#include "drive/report.h"

namespace sparkpilot::cli {

// Prints the segments, times, notes and errors of a drive, and where its page is.
void print_drive(const drive::DriveReport& report);

}  // namespace sparkpilot::cli

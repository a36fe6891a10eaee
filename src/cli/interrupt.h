// Ctrl-C, hang-up and termination leave nothing half-written behind.
#pragma once

namespace sparkpilot::cli {

// To be called before any other thread starts. From then on SIGINT, SIGTERM and SIGHUP first remove the files that are
// being written aside, then end the program as they would have.
void clean_up_when_interrupted();

}  // namespace sparkpilot::cli

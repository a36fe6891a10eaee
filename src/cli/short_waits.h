// How long OpenMP's threads spin for the next piece of work before they sleep.
#pragma once

#include <string>
#include <vector>

namespace sparkpilot::cli {

// By default libgomp's threads spin for milliseconds after every run, even if other processes need the processor: next
// to two other processes, beginning and ending a piece of work was measured at 50 ms, and at 0.05 ms with short waits.
// libgomp reads the time (GOMP_SPINCOUNT) before main(), so this sets it to 0.15 ms, which slows no network, and
// restarts the program with the same arguments. Does nothing if the user has set it (or OMP_WAIT_POLICY), if there is
// one processor, or if the program cannot be restarted.
void restart_with_short_waits(char** argv);

// The variables of the environment that the above has set, if it has: other programs are not meant to get them.
std::vector<std::string> variables_of_short_waits();

}  // namespace sparkpilot::cli

// How long OpenMP's threads spin for the next piece of work before they sleep.
#pragma once

namespace sparkpilot::cli {

// By default libgomp's threads spin for milliseconds, after every run and beside whoever else needs the processor: next
// to two other processes, beginning and ending a piece of work was measured at 50 ms so, and at 0.05 ms with short
// waits. libgomp reads how long (GOMP_SPINCOUNT) before main(), so this sets it for 0.15 ms, which costs no network
// anything, and starts the program anew with the same arguments. Does nothing where the user has set it (or
// OMP_WAIT_POLICY), where there is one processor, or where the program cannot be started anew.
void begin_with_short_waits(char** argv);

}  // namespace sparkpilot::cli

// The other side of sim/worker_algorithm.h: the process that runs a user's shared library.
#pragma once

namespace sparkpilot::sim {

// The first argument of a program that is to call run_algorithm_worker().
inline constexpr const char* kAlgorithmWorker = "sim-algorithm-worker";

// Loads the library `file` and answers on stdin and stdout until stdin ends, with the memory at kAlgorithmMemoryFd.
// Returns the exit code. To be called before anything else has been done, as the library is given a plain process:
// signals as they are by default, what it prints goes to stderr.
int run_algorithm_worker(const char* file);

}  // namespace sparkpilot::sim

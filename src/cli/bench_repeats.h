// The repeats of `sparkpilot bench`: each is measured by a separate process, this program started again with the same
// command line and --as-repeat.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/repeats.h"
#include "bench/turns.h"

namespace sparkpilot::cli {

// A model in one precision, as it is to be measured.
struct BenchVariant {
  std::string name, file;
  BenchOptions options;
};

// Starts a process for each repeat, one after another. They use the device, threads and kernels that were found before.
// `variant`: its place among those of the command line. `done` is called after each. Fails (user) with a process's own
// message.
std::vector<Repeat> measure_repeats(size_t variant, const Measured& model, size_t count,
                                    const std::function<void()>& done);

// What such a process does: reads from stdin what the other one has found, and prints the times as JSON.
int answer_repeat(const std::vector<BenchVariant>& variants, int64_t variant);

}  // namespace sparkpilot::cli

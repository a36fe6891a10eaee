// Models that were measured one after another, timed once more in turns.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "bench/interleaved.h"
#include "bench/model_bench.h"

namespace sparkpilot {

// What bench_model() made of a file with these options, whose device is settled.
struct Measured {
  BenchOptions options;
  ModelBench bench;
};

// The ratio of each one's time to the first one's, in the same order; the first has none. All of them are in memory at
// the same time, with the threads and kernels that they were measured with. Fails (user) with the file in the message.
std::vector<Ratio> ratios_in_turns(std::span<const Measured> models, const InterleavedOptions& options = {});

}  // namespace sparkpilot

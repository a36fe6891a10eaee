// Many worlds at once: as lanes of vectors, in blocks that stay in a core's second-level cache for their whole time, on
// the process's threads (base/parallel.h).
//
// A world's result depends on its WorldSpec, the options and the instruction set alone: not on the number of threads,
// nor on the other worlds or how many there are, so shards of a run can be computed apart and put together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sim/world.h"

namespace sparkpilot {
class GpuDevice;
}

namespace sparkpilot::sim {

// `lanes` is what to use; the others are for tests and for comparison. `single` computes one world after the other in
// float, as a GPU's thread does: the bits of `lanes` on processors with fused multiply-adds.
enum class Number { lanes, single, reference };

struct BatchOptions {
  Lateral lateral = Lateral::torque;
  Tyres tyres = Tyres::linear;
  int steps = 1000;   // of 10 ms, below 2^24
  int warm_up = 0;    // steps that enter no figure
  uint64_t seed = 0;  // of the noise
  Number number = Number::lanes;
  std::shared_ptr<GpuDevice> gpu = nullptr;  // null: the CPU; on a GPU `number` counts for nothing, it is `single`
};

// Runs worlds 0 to count - 1; spec(i) says what world i is, and is called once for each, from any thread. Fails (user)
// as check_world() does, with kind device as a GPU does; an exception of spec() is passed on.
std::vector<WorldResult> run_worlds(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                    const BatchOptions& options);

}  // namespace sparkpilot::sim

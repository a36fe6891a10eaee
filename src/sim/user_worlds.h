// Worlds driven by a user's algorithm in worker processes.
//
// Worlds go to workers in batches of 512, whatever the number of workers: an algorithm whose worlds do not affect each
// other gives the same results with any number of them. A batch in which a worker crashes, hangs or reports an error
// is run again in halves, down to single worlds.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/batch.h"
#include "sim/scenario_run.h"
#include "sim/trace.h"
#include "sim/user_algorithm.h"

namespace sparkpilot::sim {

struct UserDrive {
  const UserAlgorithm& algorithm;
  std::vector<double> parameters;           // one value for each of the algorithm's
  const std::atomic<bool>* stop = nullptr;  // ends it early
};

struct UserWorld {
  WorldResult result;  // nothing where it failed
  std::string failed;  // what the algorithm did in this world that it may not; empty: nothing
};

// As run_worlds(), on all threads, each with a worker of its own; `options` without `lateral` and `warm_up`, which
// count for nothing. Empty where `stop` was set. Fails (user) where no worker can be started, too.
std::vector<UserWorld> run_user_worlds(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                                       const UserDrive& drive, const BatchOptions& options);

// One world, as trace_world() does it, up to where the algorithm fails; and what it did then, as above.
std::pair<Trace, std::string> trace_user_world(const WorldSpec& world, const UserDrive& drive,
                                               const BatchOptions& options);

// Times of single updates in a worker. Empty if the algorithm did not answer.
std::optional<UpdateLatency> user_latency(const WorldSpec& world, const UserDrive& drive);

}  // namespace sparkpilot::sim

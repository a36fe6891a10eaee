// TinyPhysics, the learned lateral simulator of comma's controls challenge, and any network of its kind: rollouts of
// many routes at once, on the terms of the official script (tinyphysics.py), so that they sample the same tokens.
//
// A network has the inputs f32 [b, n, 4] (states: action, lateral acceleration by roll, speed, acceleration) and i64 or
// i32 [b, n] (tokens), and one output of logits, [b, n, bins] or [b, bins] (sim/tinyphysics_network.h). Comma's has 20
// rows n and 1,024 bins.
//
// The terms: bins are points from -5 to 5 m/s^2, a value's token is that of the first bin at or above it. Steps
// n to 99 take the route's actions and its target as the present acceleration, consume a random number each, and the
// controller runs along. From 100 on the network's probabilities are softmax(logits / 0.8) in f32, their cumulative
// sum in f64 is divided by its last value, and the token is the first whose share exceeds the random number (MT19937,
// seeded by seed()). The bin's value is clipped to 0.5 m/s^2 around the present one. Costs count rows 100 to 499.
//
// The network runs on slices of `batch` routes, the last one padded, with kernels chosen by rules: a route's result
// does not depend on the other routes, nor on the number of threads. On the CPU each thread has slices of its own; on a
// GPU one slice runs at a time, and the threads share what is done for its routes between the network's runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/challenge_control.h"
#include "sim/challenge_route.h"
#include "sparkpilot/graph.h"

namespace sparkpilot::sim {

// The official seed of a route: the path's MD5 as a number, modulo 10^4. The script gives the path to pathlib first, so
// it sees "data/0.csv" where "./data/0.csv" was given; here it is taken as it is.
uint32_t challenge_seed(std::string_view path);

struct ChallengeCosts {
  double lataccel = 0, jerk = 0, total = 0;
};

struct TinyPhysicsTask {
  const ChallengeRoute* route = nullptr;
  uint32_t seed = 0;
  std::string_view name = {};  // in messages
};

struct TinyPhysicsRollout {
  std::optional<ChallengeCosts> costs;  // empty if it diverged or failed
  // The row in which the controller's action was not finite, after which the rollout ends; -1: in none.
  int64_t diverged_at = -1;
  std::string failed;           // what the controller did instead of giving one, and in which row; empty: nothing
  std::vector<int16_t> tokens;  // sampled, from row 100 on
  std::vector<double> lataccel, actions;  // of rows 0 to the last; with TinyPhysicsOptions::trajectories
};

struct TinyPhysicsOptions {
  // Routes that the network runs at once; results may differ by rounding between batches. Empty: 16, on a GPU
  // batch_on_gpu, or as many as it takes if that is fixed.
  std::optional<int64_t> batch = {};
  int64_t batch_on_gpu = 1024;
  double most_lataccel = 5;                    // m/s^2: bins are points from minus this to this
  int threads = 0;                             // 0: as many as the process may use
  std::string device = "cpu";                  // as SessionOptions has it
  std::optional<int64_t> memory_reserve = {};  // bytes of its memory that are left to others, the same
  bool trajectories = false;
  const std::atomic<bool>* stop = nullptr;  // once true, routes that are not finished stay without result
  // Called by one thread at a time, with the steps of routes that are done, and with each route's index and result.
  std::function<void(double share)> progress = {};
  std::function<void(size_t route, const TinyPhysicsRollout& rollout)> finished = {};
};

class TinyPhysics {
 public:
  // `name` stands for the model in messages. Fails (user) if it is not of the kind, and on options beyond their bounds.
  TinyPhysics(Graph graph, const std::string& name, TinyPhysicsOptions options);
  ~TinyPhysics();

  // A result for each task; those that `stop` prevented have no tokens and no costs. Fails (user) naming the task by
  // its name if the network's output is not finite. Each thread makes a controller of its own. Routes with which a
  // controller is lost (ControllerLost) run again in halves, down to single ones, of which those with which it is lost
  // again have failed; all else that it throws is passed on.
  std::vector<TinyPhysicsRollout> run(std::span<const TinyPhysicsTask> tasks,
                                      const ChallengeControllerMaker& controller);
  int64_t batch() const;
  const std::string& device() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::sim

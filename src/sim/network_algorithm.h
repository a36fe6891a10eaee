// A user's algorithm that is a network: an ONNX file from what the environment for learning observes to its actions
// (docs/sim_env.md), so that a policy that was trained there drives scenarios as it is.
//
// One input, f32 [b, 23]: observed_numbers(), as they are; one output, f32 [b, 1] or [b, 2]: the lateral command, and
// acceleration if the network drives and brakes too. b is open or 1. Beyond the bounds of learning_actions() it is
// clipped. The model's metadata may say more: "sparkpilot-sim/steering" is "torque" (default) or "angle",
// "sparkpilot-sim/steps_per_action" how many steps of 10 ms each action is kept (5 by default).
//
// The network runs on slices of 128 worlds, the last one padded, each on one thread with kernels chosen by rules: a
// world's result depends neither on the other worlds nor on the number of threads.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sim/user_algorithm.h"
#include "sparkpilot/graph.h"
#include "sparkpilot/session.h"

namespace sparkpilot::sim {

class NetworkAlgorithm : public UserAlgorithm {
 public:
  // Fails (user) naming the file, and what was expected and what came, on a network that is no algorithm.
  explicit NetworkAlgorithm(const std::filesystem::path& file);
  ~NetworkAlgorithm() override;

  int steps_per_action() const { return steps_per_action_; }

  std::vector<UserWorld> run(int64_t count, const std::function<WorldSpec(int64_t)>& spec,
                             const UserDrive& drive) const override;
  std::pair<Trace, std::string> trace(const WorldSpec& world, const UserDrive& drive) const override;
  // Of the network alone, with one world.
  std::optional<UpdateLatency> latency(const WorldSpec& world, const UserDrive& drive) const override;

 private:
  class Slice;
  std::unique_ptr<Session> session(int64_t worlds) const;
  std::unique_ptr<Slice> take() const;
  void give_back(std::unique_ptr<Slice> slice) const;

  Graph graph_;
  std::string input_, output_;
  bool open_ = true;  // b is
  int steps_per_action_ = 5;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Slice>> idle_;
};

}  // namespace sparkpilot::sim

// Worlds as an environment for learning: episodes of scenarios, rewards, ends (docs/sim_env.md). What C programs get is
// include/sparkpilot/sim_env.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/scenario.h"
#include "sim/world_stepper.h"

namespace sparkpilot::sim {

// What becomes of a world whose episode ended: the next call of step() begins the next one instead of a step; the same
// call does; or nothing does but reset().
enum class Autoreset { next_step, same_step, disabled };

// The terms of a reward: step_costs() and the three ends of an episode, 0 or 1. `scale` is the weight that
// LearningOptions begins with.
std::span<const WorldNumber> reward_terms();

// What an action may hold: the lateral command, and acceleration.
std::span<const WorldNumber> learning_actions(bool torque);

struct LearningOptions {
  int64_t worlds = 1;
  std::vector<Scenario> scenarios;  // an episode's is drawn from them with equal chances, and so is its variant
  std::string vehicle = "civic";    // a preset, or "any": drawn too
  bool torque = true, longitudinal = false;
  Tyres tyres = Tyres::saturating;
  Planner planner = Planner::idm;
  int steps_per_action = 5;  // of 10 ms
  double most_seconds = 0;   // of an episode; 0: as long as its scenario
  double lane = 1.8;         // m: further away from its middle an episode ends
  Autoreset autoreset = Autoreset::same_step;
  uint64_t seed = 0;            // world i has seed + i until reset() says otherwise
  std::vector<float> weights;   // of reward_terms(); empty: theirs
  StepperPlace elsewhere = {};  // than on the processor
};

// Rows of worlds, as observed_numbers() and reward_terms(). What is null is not written.
struct LearningBuffers {
  float* observations = nullptr;
  float* rewards = nullptr;
  uint8_t *terminated = nullptr, *truncated = nullptr;  // by a collision, a divergence or leaving the lane; by time
  // With same_step: 1, and the row, of worlds whose episode ended; observations are those of the next one's beginning.
  uint8_t* ended = nullptr;
  float* final_observations = nullptr;
  float* terms = nullptr;
};

// Episode n of a world is a function of the world's seed and n, so neither other worlds nor threads matter. One thread
// at a time.
class LearningEnv {
 public:
  // Fails (user) on what there is not.
  explicit LearningEnv(LearningOptions options);

  const LearningOptions& options() const { return options_; }
  // What a row of actions holds: the lateral command and, if the caller drives it, acceleration. Beyond low and high an
  // action is clipped.
  std::span<const WorldNumber> actions() const { return actions_; }
  const Scenario& scenario(int64_t world) const;  // of its episode
  int64_t episode(int64_t world) const;           // from 0

  // Begins the next episode of worlds whose mask is not 0 (null: all); with seeds, one for each world, episode 0 of
  // those. Writes observations of all worlds. Fails (user) where a world was never begun and is not in the mask: then
  // nothing has changed.
  void reset(const uint8_t* mask, const uint64_t* seeds, const LearningBuffers& out);
  // Actions: [worlds, actions()]. Fails (user) before the first reset, with an action that is not finite, and with
  // Autoreset::disabled where an episode ended and was not reset: then no world has moved. Allocates nothing unless an
  // episode begins.
  void step(const float* actions, const LearningBuffers& out);

 private:
  struct Episode {
    uint64_t seed = 0;
    int64_t number = -1;
    size_t scenario = 0;
    int64_t steps = 0;  // that it lasts at most
    bool ended = false;
  };
  WorldSpec begin(int64_t world);
  void set_commands(const float* actions);
  void judge(int64_t world, const float* observation, const LearningBuffers& out);

  LearningOptions options_;
  WorldStepper stepper_;
  std::span<const WorldNumber> actions_;
  std::vector<Episode> episodes_;
  std::vector<float> commands_, costs_, seen_;
  std::vector<uint8_t> mask_;
};

}  // namespace sparkpilot::sim

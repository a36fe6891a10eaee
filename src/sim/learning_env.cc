#include "sim/learning_env.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"
#include "sim/algorithm.h"
#include "sim/batch_gpu.h"

namespace sparkpilot::sim {
namespace {

constexpr WorldNumber kTorqueActions[] = {
    {"torque", "", -1, 1, 1, "of the steering, left positive"},
    {"acceleration", "m/s^2", -3.5, 2, 1, "asked of powertrain and brakes"},
};
constexpr WorldNumber kAngleActions[] = {
    {"angle", "deg", -480, 480, 10, "of the steering wheel, left positive"},
    kTorqueActions[1],
};

// Weights of step_costs(): a comfortable drive on the scenarios loses some hundredths by each of them.
constexpr double kCostWeights[] = {-1, -0.005, -0.5, -0.01, -0.05, -0.0005, -1};
enum End { kCollision, kDivergence, kOffLane, kEnds };
constexpr WorldNumber kEndTerms[] = {
    {"collision", "", 0, 1, -10, "1 in the step in which the gap to the car ahead came to 0"},
    {"divergence", "", 0, 1, -10, "1 in the step in which the car left every bound"},
    {"off_lane", "", 0, 1, -10, "1 in the step at whose end the car is too far from the middle of its lane"},
};

}  // namespace

std::span<const WorldNumber> reward_terms() {
  static const std::vector<WorldNumber> terms = [] {
    std::vector<WorldNumber> all(step_costs().begin(), step_costs().end());
    if (all.size() != std::size(kCostWeights)) fail_internal("sim: {} costs", all.size());
    for (size_t i = 0; i < all.size(); ++i) all[i].scale = kCostWeights[i];
    all.insert(all.end(), std::begin(kEndTerms), std::end(kEndTerms));
    return all;
  }();
  return terms;
}

std::span<const WorldNumber> learning_actions(bool torque) { return torque ? kTorqueActions : kAngleActions; }

LearningEnv::LearningEnv(LearningOptions options)
    : options_(std::move(options)),
      stepper_(options_.worlds, {.torque = options_.torque,
                                 .longitudinal = options_.longitudinal,
                                 .tyres = options_.tyres,
                                 .elsewhere = options_.elsewhere}),
      actions_(learning_actions(options_.torque).first(options_.longitudinal ? 2 : 1)) {
  LearningOptions& o = options_;
  if (o.scenarios.empty()) fail("sim: no scenario to drive");
  if (const auto why = not_on_gpu(Lateral::torque, o.planner); o.elsewhere && !why.empty()) fail("{}", why);
  if (o.vehicle != "any") preset_vehicle(o.vehicle);
  if (o.steps_per_action < 1 || o.steps_per_action > 1000) {
    fail("sim: {} steps an action, expected 1 to 1000", o.steps_per_action);
  }
  if (!(o.most_seconds >= 0 && o.most_seconds <= 3600)) {
    fail("sim: episodes of at most {} s, expected 0 to 3600", o.most_seconds);
  }
  if (!(o.lane > 0 && o.lane <= 1000)) fail("sim: a lane of {} m to each side, expected above 0 to 1000", o.lane);
  const auto terms = reward_terms();
  if (o.weights.empty()) {
    for (const WorldNumber& term : terms) o.weights.push_back(static_cast<float>(term.scale));
  }
  if (o.weights.size() != terms.size()) fail("sim: {} weights, expected {}", o.weights.size(), terms.size());
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!std::isfinite(o.weights[i])) fail("sim: the weight of {} is {}", terms[i].name, o.weights[i]);
  }
  const auto worlds = static_cast<size_t>(o.worlds);
  episodes_.resize(worlds);
  for (size_t i = 0; i < worlds; ++i) episodes_[i].seed = o.seed + i;
  commands_.resize(worlds * 2);
  costs_.resize(worlds * step_costs().size());
  seen_.resize(worlds * observed_numbers().size());
  mask_.resize(worlds);
}

const Scenario& LearningEnv::scenario(int64_t world) const {
  return options_.scenarios[episodes_[static_cast<size_t>(world)].scenario];
}
int64_t LearningEnv::episode(int64_t world) const { return episodes_[static_cast<size_t>(world)].number; }

WorldSpec LearningEnv::begin(int64_t world) {
  Episode& e = episodes_[static_cast<size_t>(world)];
  ++e.number;
  const auto words = sparkpilot::philox4x32(e.seed, static_cast<uint64_t>(e.number));
  const auto below = [](uint32_t word, size_t count) { return static_cast<size_t>(uint64_t{word} * count >> 32); };
  e.scenario = below(words[0], options_.scenarios.size());
  const Scenario& scenario = options_.scenarios[e.scenario];
  const double seconds =
      options_.most_seconds > 0 ? std::min(options_.most_seconds, scenario.seconds) : scenario.seconds;
  e.steps = std::lround(seconds / kStep);
  e.ended = false;
  const Vehicle& vehicle = options_.vehicle == "any"
                               ? vehicle_presets()[below(words[3], vehicle_presets().size())].vehicle
                               : preset_vehicle(options_.vehicle);
  const int64_t variant = static_cast<int64_t>((uint64_t{words[1]} << 32 | words[2]) >> 2) + 1;
  WorldSpec world_spec = scenario_world(scenario, variant, e.seed, vehicle);
  find_algorithm(options_.torque ? "lateral_torque" : "lateral_angle").begin(world_spec);
  world_spec.following.planner = options_.planner;
  return world_spec;
}

void LearningEnv::reset(const uint8_t* mask, const uint64_t* seeds, const LearningBuffers& out) {
  for (size_t i = 0; mask && i < episodes_.size(); ++i) {
    if (!mask[i] && episodes_[i].number < 0) fail("sim: world {} was never begun and is not in the mask", i);
  }
  for (size_t i = 0; seeds && i < episodes_.size(); ++i) {
    if (!mask || mask[i]) episodes_[i] = {.seed = seeds[i]};
  }
  stepper_.reset(mask, [this](int64_t i) { return begin(i); });
  if (out.observations) stepper_.observe(out.observations);
}

void LearningEnv::set_commands(const float* actions) {
  const size_t width = actions_.size();
  for (size_t i = 0; i < episodes_.size(); ++i) {
    const Episode& e = episodes_[i];
    if (e.number < 0) fail("sim: world {} was never begun: reset() comes first", i);
    if (e.ended && options_.autoreset == Autoreset::disabled) fail("sim: world {} ended and was not reset", i);
    for (size_t c = 0; c < width; ++c) {
      const float action = actions[i * width + c];
      // An ended world's is not read: the next episode begins in its place.
      if (!e.ended && !std::isfinite(action)) {
        fail("sim: the {} of world {} is {}, expected a finite number", actions_[c].name, i, action);
      }
      const WorldNumber& range = actions_[c];
      commands_[i * 2 + c] =
          e.ended ? 0 : std::clamp(action, static_cast<float>(range.low), static_cast<float>(range.high));
    }
  }
}

void LearningEnv::judge(int64_t world, const float* observation, const LearningBuffers& out) {
  static const size_t offset = [] {
    const auto numbers = observed_numbers();
    return static_cast<size_t>(std::ranges::find(numbers, "offset", &WorldNumber::name) - numbers.begin());
  }();
  const auto i = static_cast<size_t>(world);
  Episode& e = episodes_[i];
  const size_t costs = step_costs().size(), count = reward_terms().size();
  float ends[kEnds] = {};
  ends[kCollision] = stepper_.collided(world) ? 1.0f : 0.0f;
  ends[kDivergence] = stepper_.diverged(world) ? 1.0f : 0.0f;
  ends[kOffLane] = std::fabs(static_cast<double>(observation[offset])) > options_.lane ? 1.0f : 0.0f;
  float reward = 0;
  for (size_t t = 0; t < count; ++t) {
    const float term = e.ended ? 0 : t < costs ? costs_[i * costs + t] : ends[t - costs];
    if (out.terms) out.terms[i * count + t] = term;
    reward += options_.weights[t] * term;
  }
  const bool terminated = !e.ended && std::ranges::any_of(ends, [](float end) { return end > 0; });
  const bool truncated = !e.ended && !terminated && stepper_.steps(world) >= e.steps;
  if (out.rewards) out.rewards[i] = reward;
  if (out.terminated) out.terminated[i] = terminated;
  if (out.truncated) out.truncated[i] = truncated;
  // An episode that had ended before this step is not over again: the next one begins.
  mask_[i] = e.ended ? 1 : 0;
  if (options_.autoreset == Autoreset::same_step) mask_[i] = terminated || truncated;
  e.ended = terminated || truncated;
}

void LearningEnv::step(const float* actions, const LearningBuffers& out) {
  set_commands(actions);
  float* const seen = out.observations ? out.observations : seen_.data();
  stepper_.step(commands_.data(), options_.steps_per_action, seen, costs_.data());
  const size_t numbers = observed_numbers().size();
  std::atomic<bool> any = false;
  parallel_for(std::ssize(episodes_), 256, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      judge(static_cast<int64_t>(i), seen + i * numbers, out);
      const bool ended = options_.autoreset == Autoreset::same_step && mask_[i];
      if (out.ended) out.ended[i] = ended;
      if (ended && out.final_observations) {
        std::copy_n(seen + i * numbers, numbers, out.final_observations + i * numbers);
      }
      if (mask_[i]) any = true;
    }
  });
  if (!any) return;
  stepper_.reset(mask_.data(), [this](int64_t i) { return begin(i); });
  stepper_.observe(seen, mask_.data());
}

}  // namespace sparkpilot::sim

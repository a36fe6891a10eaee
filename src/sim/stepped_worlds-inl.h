// What WorldStepper's worlds have in common wherever they are computed: on the processor (sim/world_stepper.cc) and on
// a GPU (sim/world_stepper_gpu.cc).
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "sim/alone-inl.h"
#include "sim/outside-inl.h"
#include "sim/trace-inl.h"
#include "sim/world_fields.h"
#include "sim/world_stepper.h"

namespace sparkpilot::sim {

inline constexpr int kMostSteps = 1 << 24;  // whole numbers of a float
inline constexpr int kSlots = 1600;         // of a clock that both lengths of rings divide
static_assert(kSlots % kRequests == 0 && kSlots % scalar::kSteeringDelay == 0);
inline constexpr int kObservedNumbers = kOutsideFeatures + 1;

// Of a world, what its numbers do not say.
struct OtherOfWorld {
  std::shared_ptr<const CourseTable> table;
  double lateral_delay = 0;
  bool noise = false, lead = false, rich = false;
};

template <class Real>
void look_at_table(const OtherOfWorld& other, double t, scalar::OutsideInput<Real>& in) {
  const CourseTable& table = *other.table;
  in.row = scalar::converted<scalar::CourseRow<Real>, Real>(scalar::CourseReader(table, other.lateral_delay).row(t));
  scalar::TablePlace ahead;
  for (int i = 0; i < kPreviews; ++i) {
    ahead.move_to(table, t + kPreview[i]);
    in.ahead[i] = static_cast<Real>(ahead.of(table.curvature));
  }
}

// The numbers of a world at its beginning.
template <class Real, class Control>
struct BegunWorld {
  scalar::WorldConstants<Real, Control> constants;
  scalar::WorldState<Real, Control> state;
  struct {
    Real numbers[kOutsideFeatures];
  } features;
  struct {
    Real numbers[scalar::kRingSlots];
  } slots;
};
// Fails (user) as check_world() does. `other`: is set. `planned`: called with the state behind its first plan.
template <class Real, class Control, class Planned>
BegunWorld<Real, Control> begin_outside(const WorldSpec& spec, const StepperOptions& options, OtherOfWorld& other,
                                        const Planned& planned) {
  using Constants = scalar::WorldConstants<Real, Control>;
  check_world(spec);
  other = {spec.course.table, spec.lateral_delay, has_noise(spec.noise), has_lead(spec), scalar::is_rich(spec.course)};
  BegunWorld<Real, Control> begun;
  begun.constants = scalar::converted<Constants, Real>(scalar::prepare<Control>(spec, options.tyres));
  begun.state =
      scalar::beginning<Real, Control>(begun.constants.course, scalar::WorldRings<Real>(begun.slots.numbers, 1));
  const scalar::RunSettings run{options.seed, 0, other.noise, other.lead, other.rich};
  scalar::OutsideInput<Real> in{};
  if (other.table) look_at_table(other, 0, in);
  plan_outside(run, in, other.table != nullptr, begun.constants, begun.state);
  planned(begun.state);
  sense_outside(run, Real(0), begun.constants, begun.state);
  features_outside(begun.constants, begun.state, begun.features.numbers);
  return begun;
}

class SteppedWorlds {
 public:
  SteppedWorlds(int64_t count, const StepperOptions& o)
      : options(o), count_(count), steps_(static_cast<size_t>(count), -1) {}
  virtual ~SteppedWorlds() = default;
  SteppedWorlds(const SteppedWorlds&) = delete;
  SteppedWorlds& operator=(const SteppedWorlds&) = delete;
  virtual void reset(const uint8_t* mask, const std::function<WorldSpec(int64_t)>& spec) = 0;
  virtual void step(const float* commands, int steps, float* observations, float* costs) = 0;
  virtual void observe(float* out, const uint8_t* mask) const = 0;
  virtual bool diverged(int64_t world) const = 0;
  virtual bool collided(int64_t world) const = 0;
  virtual WorldResult result(int64_t world) const = 0;
  virtual std::array<double, kTraceColumns> trace_row(int64_t world) const = 0;

  int64_t count() const { return count_; }
  int64_t steps(int64_t world) const { return steps_[static_cast<size_t>(world)]; }
  const StepperOptions options;

 protected:
  // As WorldStepper::step() fails.
  void check_step(const float* commands, int steps) const {
    if (steps < 1) fail("sim: {} steps, expected 1 or more", steps);
    for (int64_t i = 0; i < count_; ++i) {
      if (steps_[static_cast<size_t>(i)] < 0) fail("sim: world {} was never begun: reset() comes first", i);
      if (steps_[static_cast<size_t>(i)] > kMostSteps - steps) {
        fail("sim: world {} is at step {}, {} more are beyond 2^24", i, steps_[static_cast<size_t>(i)], steps);
      }
      for (int c = 0; c < (options.longitudinal ? 2 : 1); ++c) {
        if (std::isfinite(commands[i * 2 + c])) continue;
        fail("sim: the {} command of world {} is {}, expected a finite number", c == 0 ? "lateral" : "acceleration", i,
             commands[i * 2 + c]);
      }
    }
  }

  // What a world reads in a call of `steps` steps, behind `done` that were made with the same commands.
  template <class Real>
  scalar::OutsideInput<Real> input(const OtherOfWorld& other, int64_t world, const float* commands, int done,
                                   int steps) const {
    const int step = steps_[static_cast<size_t>(world)] + done, until = kStepsPerPlan - step % kStepsPerPlan;
    scalar::OutsideInput<Real> in{.lateral = static_cast<Real>(commands[world * 2]),
                                  .drive = options.longitudinal ? static_cast<Real>(commands[world * 2 + 1]) : Real(0),
                                  .step = static_cast<Real>(step),
                                  .until = static_cast<Real>(until),
                                  .time = static_cast<Real>((step + until) * kStep)};
    if (other.table && until <= steps) look_at_table(other, (step + until) * kStep, in);
    return in;
  }

  // A number that is within its bounds, also if it is NaN.
  static float bounded(float value, const WorldNumber& number) {
    const auto low = static_cast<float>(number.low), high = static_cast<float>(number.high);
    return value >= low ? std::min(value, high) : value < low ? low : 0;
  }
  // feature(f), cost(f): the world's numbers; costs are sums over `steps`.
  template <class Feature>
  void write_observations(int64_t world, const Feature& feature, float* to) const {
    to[0] = static_cast<float>(static_cast<double>(std::max(steps(world), int64_t{0})) * kStep);
    for (int f = 0; f < kOutsideFeatures; ++f) {
      to[f + 1] = bounded(static_cast<float>(feature(f)), observed_numbers()[static_cast<size_t>(f) + 1]);
    }
  }
  template <class Cost>
  static void write_costs(const Cost& cost, int steps, float* to) {
    for (int f = 0; f < kOutsideCosts; ++f) {
      const auto sum = cost(f);
      to[f] =
          bounded(static_cast<float>(sum / static_cast<decltype(sum)>(steps)), step_costs()[static_cast<size_t>(f)]);
    }
  }

  const int64_t count_;
  std::vector<int32_t> steps_;  // of each world; -1: it was never begun
};

// The result of a world that made `steps` steps: a plan at its end is one that the run does not make.
template <class Control>
WorldResult outside_result(scalar::WorldState<double, Control> s, int64_t steps) {
  if (steps % kStepsPerPlan == 0) s.metrics = s.lateral.unplanned;
  return scalar::result_of<Control>(s);
}

}  // namespace sparkpilot::sim

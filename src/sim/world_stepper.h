// Worlds stepped from outside: N of them, each at its own time, whose commands the caller gives from what is seen.
//
// A step of a world is that of run_worlds(): a lateral controller outside that computes what one of openpilot's does
// gives the same world. What is seen belongs to the beginning of the next step, so a loop is
//   reset(); observe(); while (...) { commands; step(); observe(); }
// A world depends on its WorldSpec, its commands, the options and the instruction set alone.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "sim/batch.h"
#include "sim/trace.h"

namespace sparkpilot::sim {

class SteppedWorlds;
struct StepperOptions;
// Makes the worlds of a WorldStepper where they are computed.
using StepperPlace = std::function<std::unique_ptr<SteppedWorlds>(int64_t count, const StepperOptions& options)>;

struct StepperOptions {
  bool torque = true;         // the lateral command is torque of -1 to 1; otherwise degrees of the wheel
  bool longitudinal = false;  // the caller gives acceleration too; otherwise openpilot's longitudinal control does
  Tyres tyres = Tyres::saturating;
  uint64_t seed = 0;              // of the noise, with WorldSpec::number
  Number number = Number::lanes;  // as BatchOptions has it
  StepperPlace elsewhere = {};    // than on the processor: worlds_on_gpu() (sim/world_stepper_gpu.h)
};

// A number of a world. Sides are left positive. `scale`: what is usual of it; no value lies beyond low and high, not
// even of a world that diverged.
struct WorldNumber {
  std::string_view name, unit;
  double low, high, scale;
  std::string_view meaning;
};
// What is seen, with the world's noise on what is measured.
std::span<const WorldNumber> observed_numbers();
// Means over the steps of one step() of squares: what rewards are made of.
std::span<const WorldNumber> step_costs();

// One thread at a time; the worlds are computed by all of the process's (base/parallel.h), or elsewhere.
class WorldStepper {
 public:
  WorldStepper(int64_t count, const StepperOptions& options);
  ~WorldStepper();
  WorldStepper(WorldStepper&&) noexcept;
  WorldStepper& operator=(WorldStepper&&) noexcept;

  int64_t count() const;
  const StepperOptions& options() const;

  // Begins world i anew as spec(i), where mask[i] is not 0; null: all. spec() is called from any thread. Fails (user)
  // as check_world() does; others may have begun anew by then.
  void reset(const uint8_t* mask, const std::function<WorldSpec(int64_t)>& spec);

  // Makes `steps` steps of 10 ms with the same commands: [count, 2], lateral and acceleration in m/s^2, which is
  // clipped to the world's LongitudinalTuning (and read only with options().longitudinal). Fails (user) where a world
  // was never begun, where a command that is read is not finite, and beyond 2^24 steps of a world, without a step.
  // Writes what observe() would write, and [count, step_costs()], where they are not null.
  void step(const float* commands, int steps, float* observations = nullptr, float* costs = nullptr);

  // [count, observed_numbers()], row by row. With a mask: only the rows where it is not 0.
  void observe(float* out, const uint8_t* mask = nullptr) const;

  // Of worlds that were begun.
  int64_t steps(int64_t world) const;  // since it was
  bool diverged(int64_t world) const;  // it is stepped on, but nothing of it counts
  bool collided(int64_t world) const;  // with the car ahead
  WorldResult result(int64_t world) const;
  // As trace_columns() says, of the step that was made last; what is asked for is already the next one's.
  std::array<double, kTraceColumns> trace_row(int64_t world) const;

 private:
  std::unique_ptr<SteppedWorlds> worlds_;
};

}  // namespace sparkpilot::sim

// The trace of a world whose commands come from outside.
#pragma once

#include <utility>

#include "sim/trace.h"
#include "sim/world_stepper.h"

namespace sparkpilot::sim {

// To be called before the first step with -1, and behind every step: adds a row of world 0 for each 50 ms, up to a
// divergence. Behind a step a world already shows the curvature that is asked for in the next one; a row has the one
// that its own step was asked for.
class OutsideTrace {
 public:
  explicit OutsideTrace(Trace& trace) : trace_(&trace) {}  // which outlives it
  void operator()(int step, const WorldStepper& worlds) {
    auto row = worlds.trace_row(0);
    const double asked = std::exchange(next_, row[kDesiredCurvature]);
    if (step % kStepsPerPlan != 0 || worlds.diverged(0)) return;
    row[kDesiredCurvature] = asked;
    trace_->rows.push_back(row);
  }

 private:
  Trace* trace_;
  double next_ = 0;
};

}  // namespace sparkpilot::sim

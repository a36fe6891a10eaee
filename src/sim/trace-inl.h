// A row of a trace from a world's state. In the namespace scalar only.
#pragma once

#include <array>
#include <limits>

#include "sim/trace.h"
#include "sim/world-inl.h"

namespace sparkpilot::sim::scalar {

// `step`: the one that was made last.
template <class N, class Control>
std::array<double, kTraceColumns> trace_row(int64_t step, const WorldConstants<N, Control>& k,
                                            const WorldState<N, Control>& s) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Motion<N>& m = s.motion;
  const bool lead = s.lead.there > N(0.5);
  const double yaw_rate = m.yaw_rate * motion_scale(k.car, m.speed), v = m.speed;
  return {static_cast<double>(step) * kStep,
          v,
          s.target_speed,
          m.acceleration,
          s.target,
          s.road.curvature,
          -s.desired_curvature,
          yaw_rate * v,
          s.road.curvature * v * v,
          m.offset,
          m.heading,
          s.steering.wheel * kDegrees,
          s.steering.command * (Control::kTorque ? 1 : kDegrees),
          s.road.roll,
          s.metrics.distance,
          lead ? s.lead.gap : kNone,
          lead ? s.lead.speed : kNone};
}

}  // namespace sparkpilot::sim::scalar

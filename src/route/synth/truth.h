// A perfect driving model's outputs for a frame: openpilot's modelV2, computed from the world.
//
// Everything is in the calibrated frame of the frame's own moment, with the device as origin: x forward, y right, z
// down, so the road lies near z = 1.22 and the plan begins at (0, 0, 0). Velocities and accelerations of the plan are
// along the car's own axes at their time, as the device would measure them.
#pragma once

#include <array>

#include "route/synth/world.h"

namespace sparkpilot::drive::synth {

inline constexpr int kPoints = 33, kLeadTimes = 6;
// 10 s and 192 m, spread quadratically: openpilot's T_IDXS and X_IDXS.
constexpr double plan_time(int i) { return 10.0 * (i / 32.0) * (i / 32.0); }
constexpr double line_x(int i) { return 192.0 * (i / 32.0) * (i / 32.0); }
constexpr double lead_time(int i) { return 2.0 * i; }

struct PlanPoint {
  Vector3 position, velocity, acceleration, orientation, rate;
};
using Polyline = std::array<Vector3, kPoints>;  // x = line_x(i)

struct LeadTruth {
  double prob = 0;
  std::array<double, kLeadTimes> x{}, y{}, v{}, a{};
  int car = -1;  // index in Traffic; -1: none
};

enum class ChangeState { off, preparing, starting, finishing };  // openpilot's laneChangeState

struct FrameTruth {
  double time = 0;
  Pose pose;
  std::array<PlanPoint, kPoints> plan;
  std::array<Polyline, 4> lane_lines;  // beyond the left one, left, right, beyond the right one
  std::array<double, 4> lane_line_probs{};
  std::array<Polyline, 2> road_edges;
  std::array<LeadTruth, 3> leads;  // the car ahead now, in 2 s, in 4 s
  ChangeState change = ChangeState::off;
  int change_direction = 0;  // -1 left, 1 right
  double desired_curvature = 0, desired_acceleration = 0;
  bool should_stop = false;
};

// `time` from 0 to the options' seconds; `lateral_delay`, `longitudinal_delay`: how many seconds ahead the action
// looks.
FrameTruth frame_truth(const World& world, double time, double lateral_delay = 0.2, double longitudinal_delay = 0.3);

// A line painted along d = `offset`, seen from `pose`, at line_x(0..32); if the road turns away before a distance is
// reached, the last point reached.
Polyline line_from(const World& world, const Pose& pose, double offset);

// A place of the ground frame seen from `pose`: calibrated coordinates.
Vector3 seen_from(const Pose& pose, const Vector3& ned);

}  // namespace sparkpilot::drive::synth

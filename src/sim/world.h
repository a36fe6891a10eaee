// What one simulated world is: a car with its steering and controllers, the course that it drives, and what comes out.
// In doubles; the steps are in sim/world-inl.h, many worlds at once in sim/batch.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/control.h"
#include "sim/mpc.h"
#include "sim/vehicle.h"

namespace sparkpilot::sim {

inline constexpr double kForever = 1e6;  // s
inline constexpr int kStepsPerPlan = 5;  // the planner and the course run at 20 Hz

// How a car follows commands. The defaults are a torque-steered car's.
struct Steering {
  double delay = 0.1;                              // s, rounded to steps; 0 to 0.63
  double lag = 0.1;                                // s, of the first order
  double torque_rate = 5;                          // 1/s: most change of the torque command, which is -1 to 1
  double accel_factor = 1.653, friction = 0.2546;  // of the car, as LateralTuning's are what the controller believes
  double angle_limit = 480;                        // degrees of the wheel
  double angle_rate = 400;                         // degrees/s of the wheel
};

struct Powertrain {
  double delay = 0.1;  // s, rounded to steps; 0 to 0.63
  double lag = 0.2;    // s, of the first order
  // The share of drag and rolling resistance that the car's own control of acceleration makes up for, 0 to 1: cars that
  // take accelerations do it, and openpilot leaves it to them. Slopes are not made up for.
  double compensated = 1;
};

// Columns of equal length, at least one row, times ascending; between rows linear, before the first and behind the last
// as those. Units are those of Course.
struct CourseTable {
  std::vector<double> time, curvature, speed, roll;
  // The cars ahead, one after the other; both columns are empty where the table says nothing of them. A row without a
  // speed (m/s) has no car ahead. Where a car comes, its row has the gap (m, from bumper to bumper) at which it comes;
  // in the rows behind that, which have none, the gap is what the speeds make of it.
  std::vector<std::optional<double>> lead_speed = {}, lead_gap = {};
};

// The road and what is asked for, as functions of time t in seconds. Curvature: 1/m, left positive.
struct Course {
  // base + wave sin(frequency (t - wave_at)) for wave_for seconds + turns, which come in smooth ramps from turn_at and
  // turn2_at on.
  double curvature = 0, wave = 0, frequency = 0, wave_at = 0, wave_for = kForever;
  double turn = 0, turn_at = 0, turn_ramp = 1, turn2 = 0, turn2_at = 0, turn2_ramp = 1;
  double speed = 20, speed_change = 0, change_at = 0, change_ramp = 1;  // m/s asked for; the car starts at `speed`
  double brake = 1.2;                                                   // m/s^2: most deceleration that is asked for
  double lane_keeping =
      0.3;  // 1/s: how fast the planner brings the car back to the middle of its lane; 0: it follows curvature alone
  double start_offset = 0;                                 // m, left positive: where in the lane the car starts
  double roll = 0, grade = 0;                              // rad; sin of the slope
  double roll_change = 0, roll_at = 0, roll_ramp = 1;      // rad; a smooth ramp
  double grip = 1, ice_grip = 1, ice_at = 0, ice_for = 0;  // grip is ice_grip for the seconds ice_for from ice_at on
  double side = 0, side_at = 0, side_for = 0;              // m/s^2 of crosswind, in the same way
  // If set, instead of curvature, wave, turns, speed and its change, roll and its change. The car starts at `speed`.
  std::shared_ptr<const CourseTable> table;
};

// A car ahead in the lane by formulas, in place of a table's: from the time `from` (before it is not there, as before a
// cut-in) to `to`. Its speed is speed + wave sin(frequency t) + two changes in smooth ramps, at least 0.
struct Lead {
  bool there = false;
  double gap = 40;  // m, from bumper to bumper, when it comes
  double speed = 20, wave = 0, frequency = 0;
  double change = 0, change_at = 0, change_ramp = 1, change2 = 0, change2_at = 0, change2_ramp = 1;  // m/s, s, s
  double from = 0, to = 1e6;                                                                         // s
};

// How the planner follows a car ahead: cruise does not see it; idm, the Intelligent Driver Model (M. Treiber,
// A. Hennecke, D. Helbing, Phys. Rev. E 62, 2000), brakes to a (1 - (s* / gap)^2) with s* = standstill + max(0,
// time_gap v + v (v - lead) / (2 sqrt(a b))), at most by max_brake. a and b are those of A. Kesting, M. Treiber,
// D. Helbing (Phil. Trans. R. Soc. A 368, 2010), the time gap is openpilot's standard one. mpc, openpilot's planner
// (sim/mpc_planner-inl.h), has its own numbers and runs on the CPU only.
enum class Planner { cruise, idm, mpc };
inline constexpr const char* kPlannerNames[] = {"cruise", "idm", "mpc"};
struct CarFollowing {
  Planner planner = Planner::idm;
  double time_gap = 1.45, standstill = 4;            // s, m
  double accel = 1.4, brake = 2.0, max_brake = 3.5;  // m/s^2
};

// The safe gap of responsibility-sensitive safety (S. Shalev-Shwartz, S. Shammah, A. Shashua, arXiv:1708.06374,
// definition 1): while the car ahead brakes at most by lead_brake to a stop, a car that speeds up by `accel` for the
// time of its response and brakes by `brake` behind that does not reach it:
//   max(0, v response + accel response^2 / 2 + (v + accel response)^2 / (2 brake) - lead^2 / (2 lead_brake)).
// The paper leaves the numbers open; these are those that Intel's ad-rss-lib begins with.
struct SafeGap {
  double response = 1;                            // s
  double accel = 3.5, brake = 4, lead_brake = 8;  // m/s^2
};

// Standard deviations of normal noise on what controllers see, new in every step.
struct Noise {
  double angle = 0;         // degrees of the wheel
  double speed = 0;         // m/s
  double curvature = 0;     // 1/m, of the planner's wish
  double acceleration = 0;  // m/s^2
};
inline bool has_noise(const Noise& n) {
  return n.angle != 0 || n.speed != 0 || n.curvature != 0 || n.acceleration != 0;
}

struct WorldSpec {
  uint64_t number = 0;  // of the random numbers; below 2^46. Worlds of one number and seed see the same noise
  Vehicle vehicle;
  Steering steering;
  Powertrain powertrain;
  LateralTuning lateral;
  LongitudinalTuning longitudinal;
  double lateral_delay = 0.2;  // s, that the planner looks ahead and the torque controller reckons with
  CarFollowing following;
  MpcTuning mpc;
  Course course;
  Lead lead;
  Noise noise;
};

inline bool has_lead(const WorldSpec& w) {
  return w.lead.there || (w.course.table && !w.course.table->lead_speed.empty());
}

// Fails (user) with what cannot be simulated. `checked`: the last table that was found good, which is not looked at
// again; worlds often share one.
void check_world(const WorldSpec& spec, std::shared_ptr<const CourseTable>* checked = nullptr);

enum class Lateral { pid, torque, angle, mppi };
// In the order of the enum.
inline constexpr const char* kLateralNames[] = {"pid", "torque", "angle", "mppi"};

// Nothing here is NaN or infinite. Lateral acceleration is yaw rate times speed; what was asked for is the road's
// curvature times speed squared, at the same time.
struct WorldResult {
  int64_t steps = 0;                           // that entered the figures: after the warm-up, before a divergence
  double tracking_rmse = 0, tracking_max = 0;  // m/s^2
  double jerk_rms = 0;                         // m/s^3, of lateral acceleration
  double saturated = 0;                        // share of steps with the lateral controller's output at its limit
  double offset_max = 0;                       // m, from the middle of the lane
  double speed_rmse = 0;                       // m/s
  // At 20 Hz: change of the car's acceleration over 50 ms, its greatest deceleration; and what the car ahead is to it,
  // if there is one in the figures' time: gap in m, gap beyond the safe one (SafeGap) in m, and gap per closing speed
  // in s (none: it never closed in; 0: a collision), all up to a collision.
  double longitudinal_jerk_rms = 0, deceleration_max = 0;
  std::optional<double> gap_min, safety_margin_min, time_to_collision_min;
  bool collided = false;  // the gap was 0 or less, at any time before a divergence
  // Of the planner mpc, at any time before a divergence: plans whose iterations were over before they were solved, and
  // plans that break a limit by more than kMpcTolerance because it cannot be kept. Other planners have none.
  std::optional<double> unsolved_plans, infeasible_plans;
  std::optional<int64_t> diverged;             // the step in which the state left every bound
  double speed = 0, offset = 0, distance = 0;  // at the end, or at the step before the divergence
  bool operator==(const WorldResult&) const = default;
};

}  // namespace sparkpilot::sim

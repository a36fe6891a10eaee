#include "sim/world.h"

#include <cmath>

#include "base/error.h"
#include "sim/steering-inl.h"

namespace sparkpilot::sim {
namespace {

void need(double value, double low, double high, std::string_view name) {
  if (!(value >= low && value <= high)) fail("sim: {} is {}, expected {} to {}", name, value, low, high);
}

void check_table_leads(const CourseTable& t) {
  const size_t rows = t.lead_speed.size();
  if (t.lead_gap.size() != rows || (rows != 0 && rows != t.time.size())) {
    fail("sim: a course of {} times, {} speeds of cars ahead and {} gaps to them, expected as many of each, or none",
         t.time.size(), rows, t.lead_gap.size());
  }
  for (size_t i = 0; i < rows; ++i) {
    if (t.lead_speed[i]) need(*t.lead_speed[i], 0, 100, "a speed of a car ahead of the course's table [m/s]");
    if (t.lead_gap[i]) need(*t.lead_gap[i], 0.01, 1e4, "a gap to a car ahead of the course's table [m]");
    const bool before = i > 0 && t.lead_speed[i - 1];
    if (t.lead_gap[i] ? !t.lead_speed[i] : t.lead_speed[i] && !before) {
      fail("sim: row {} of the course's table has {}", i,
           t.lead_gap[i] ? "a gap to a car ahead without a speed" : "a car ahead that comes without a gap");
    }
  }
}

void check_table(const CourseTable& t) {
  if (t.time.empty() || t.curvature.size() != t.time.size() || t.speed.size() != t.time.size() ||
      t.roll.size() != t.time.size()) {
    fail("sim: a course of {} times, {} curvatures, {} speeds and {} rolls, expected as many of each, at least 1",
         t.time.size(), t.curvature.size(), t.speed.size(), t.roll.size());
  }
  check_table_leads(t);
  for (size_t i = 0; i < t.time.size(); ++i) {
    need(t.time[i], -1e6, 1e6, "a time of the course's table [s]");
    if (i > 0 && !(t.time[i] > t.time[i - 1])) {
      fail("sim: a time of the course's table [s] is {} behind {}, expected ascending times", t.time[i], t.time[i - 1]);
    }
    need(t.curvature[i], -0.5, 0.5, "a curvature of the course's table [1/m]");
    need(t.speed[i], 0, 100, "a speed of the course's table [m/s]");
    need(t.roll[i], -0.5, 0.5, "a roll of the course's table [rad]");
  }
}

template <class Need>
void check_course(const Course& c, const Need& need) {
  need(c.curvature, -0.5, 0.5, "course.curvature [1/m]");
  need(c.wave, -0.5, 0.5, "course.wave [1/m]");
  need(c.turn, -0.5, 0.5, "course.turn [1/m]");
  need(c.frequency, 0, 10, "course.frequency [rad/s]");
  need(c.turn_ramp, 0.01, 1e6, "course.turn_ramp [s]");
  need(c.change_ramp, 0.01, 1e6, "course.change_ramp [s]");
  need(c.turn2, -0.5, 0.5, "course.turn2 [1/m]");
  need(c.turn2_ramp, 0.01, 1e6, "course.turn2_ramp [s]");
  need(c.roll_ramp, 0.01, 1e6, "course.roll_ramp [s]");
  for (const double time : {c.wave_at, c.wave_for, c.turn_at, c.turn2_at, c.change_at, c.ice_at, c.ice_for, c.side_at,
                            c.side_for, c.roll_at})
    need(time, 0, 1e6, "a time of the course [s]");
  need(c.speed, 0, 100, "course.speed [m/s]");
  need(c.speed_change, -100, 100, "course.speed_change [m/s]");
  need(c.brake, 0, 20, "course.brake [m/s^2]");
  need(c.lane_keeping, 0, 10, "lane_keeping [1/s]");
  need(c.start_offset, -20, 20, "course.start_offset [m]");
  need(c.roll, -0.5, 0.5, "course.roll [rad]");
  need(c.roll_change, -0.5, 0.5, "course.roll_change [rad]");
  need(c.grade, -0.5, 0.5, "course.grade");
  need(c.grip, 0.01, 3, "course.grip");
  need(c.ice_grip, 0.01, 3, "course.ice_grip");
  need(c.side, -20, 20, "course.side [m/s^2]");
}

template <class Need>
void check_lead(const Lead& l, const CarFollowing& f, const Need& need) {
  need(l.gap, 0, 1e4, "lead.gap [m]");
  need(l.speed, 0, 100, "lead.speed [m/s]");
  for (const double change : {l.wave, l.change, l.change2}) need(change, -100, 100, "a change of lead.speed [m/s]");
  need(l.frequency, 0, 10, "lead.frequency [rad/s]");
  for (const double length : {l.change_ramp, l.change2_ramp}) need(length, 0.01, 1e6, "a ramp of lead.speed [s]");
  for (const double time : {l.change_at, l.change2_at, l.from, l.to}) need(time, 0, 1e6, "a time of lead [s]");
  need(f.time_gap, 0, 100, "time_gap [s]");
  need(f.standstill, 0, 100, "standstill [m]");
  need(f.accel, 0.01, 100, "follow_accel [m/s^2]");
  need(f.brake, 0.01, 100, "follow_brake [m/s^2]");
  need(f.max_brake, 0, 100, "max_brake [m/s^2]");
}

// Where the costs are what the solver can do with.
template <class Need>
void check_mpc(const MpcTuning& t, const Need& need) {
  need(t.t_follow, 0, 100, "t_follow [s]");
  need(t.jerk_factor, 1e-2, 100, "jerk_factor");
  need(t.obstacle_cost, 0, 1e4, "mpc_obstacle_cost");
  need(t.jerk_cost, 1e-2, 1e4, "mpc_jerk_cost");
  need(t.accel_change_cost, 0, 1e5, "mpc_accel_change_cost");
  need(t.limit_cost, 1, 1e7, "mpc.limit_cost");
  need(t.danger_cost, 1e-2, 1e5, "mpc_danger_cost");
  need(t.danger_factor, 0, 1, "mpc_danger_factor");
  need(t.min_accel, -20, -0.1, "mpc_min_accel [m/s^2]");
  need(t.actuator_delay, 0, 5, "actuator_delay [s]");
}

// Gains may be as bad as anybody wants: their worlds diverge.
template <class Need>
void check_lateral(const LateralTuning& l, const Need& need) {
  constexpr double kMost = 1e6;
  need(l.torque_kp, -kMost, kMost, "kp");
  need(l.torque_kp_fast, -kMost, kMost, "kp_fast");
  need(l.torque_ki, -kMost, kMost, "ki");
  need(l.jerk_gain, -kMost, kMost, "jerk_gain [s]");
  need(l.jerk_lookahead, 0, 10, "jerk_lookahead [s]");
  need(l.jerk_cutoff, 1e-3, 1e3, "jerk_cutoff [Hz]");
  need(l.accel_factor, 1e-3, 1e3, "accel_factor [m/s^2]");
  need(l.accel_offset, -kMost, kMost, "accel_offset [m/s^2]");
  need(l.friction, 0, kMost, "friction");
  need(l.dead_zone_degrees, 0, kMost, "dead_zone [degrees]");
  need(l.pid_kp[0], -kMost, kMost, "kp_slow");
  need(l.pid_kp[1], -kMost, kMost, "kp_fast");
  need(l.pid_ki[0], -kMost, kMost, "ki_slow");
  need(l.pid_ki[1], -kMost, kMost, "ki_fast");
  need(l.pid_kf, -kMost, kMost, "kf");
  need(l.angle_limit, 0, kMost, "angle_limit [degrees]");
  need(l.mppi_noise, 0, 100, "noise");
  need(l.mppi_temperature, 0, kMost, "temperature");
  need(l.mppi_change, 0, kMost, "change");
  need(l.mppi_observer, 0, 1, "observer");
  need(l.mppi_lag, 0, 10, "lag [s]");
}

template <class Need>
void check_longitudinal(const LongitudinalTuning& t, const Need& need) {
  constexpr double kMost = 1e6;
  need(t.kp[0], -kMost, kMost, "long_kp_0");
  need(t.kp[1], -kMost, kMost, "long_kp_5");
  need(t.kp[2], -kMost, kMost, "long_kp_35");
  need(t.ki[0], -kMost, kMost, "long_ki_0");
  need(t.ki[1], -kMost, kMost, "long_ki_5");
  need(t.ki[2], -kMost, kMost, "long_ki_35");
  need(t.kf, -kMost, kMost, "long_kf");
  need(t.stop_accel, -kMost, 0, "stop_accel [m/s^2]");
  need(t.stopping_rate, 0, kMost, "stopping_rate [m/s^3]");
  need(t.start_accel, -kMost, kMost, "start_accel [m/s^2]");
  need(t.starting_speed, -kMost, kMost, "starting_speed [m/s]");
  need(t.min_accel, -kMost, 0, "min_accel [m/s^2]");
  need(t.max_accel, 1e-3, kMost, "max_accel [m/s^2]");
}

// Calls need(value, low, high, name) for every number of a world but those of its vehicle and table. What is an
// algorithm's parameter has its name there (sim/algorithm.h).
template <class Need>
void check_numbers(const WorldSpec& w, const Need& need) {
  need(static_cast<double>(w.number), 0, 0x1p46 - 1, "the world's number");
  constexpr double kLongest = (scalar::kSteeringDelay - 1) * kStep;
  need(w.steering.delay, 0, kLongest, "steering.delay [s]");
  need(w.powertrain.delay, 0, kLongest, "powertrain.delay [s]");
  need(w.steering.lag, 0, 10, "steering.lag [s]");
  need(w.powertrain.lag, 0, 10, "powertrain.lag [s]");
  need(w.powertrain.compensated, 0, 1, "powertrain.compensated");
  need(w.steering.torque_rate, 0, 1e4, "steering.torque_rate [1/s]");
  need(w.steering.accel_factor, 0.01, 100, "steering.accel_factor [m/s^2]");
  need(w.steering.friction, 0, 10, "steering.friction");
  need(w.steering.angle_limit, 1, 2000, "steering.angle_limit [degrees]");
  need(w.steering.angle_rate, 0, 1e5, "steering.angle_rate [degrees/s]");
  need(w.lateral_delay, 0, 10, "lateral_delay [s]");
  check_lateral(w.lateral, need);
  check_longitudinal(w.longitudinal, need);
  check_course(w.course, need);
  check_lead(w.lead, w.following, need);
  check_mpc(w.mpc, need);
  for (const double deviation : {w.noise.angle, w.noise.speed, w.noise.curvature, w.noise.acceleration})
    need(deviation, 0, 1e3, "noise");
}

}  // namespace

void check_world(const WorldSpec& w, std::shared_ptr<const CourseTable>* checked) {
  check_vehicle(w.vehicle);
  // Without a branch for each number, as good as all worlds are good.
  bool good = true;
  check_numbers(w, [&](double value, double low, double high, const char*) {
    good &= static_cast<int>(value >= low) & static_cast<int>(value <= high);
  });
  if (!good) check_numbers(w, need);
  const auto& table = w.course.table;
  if (table && !(checked && *checked == table)) {
    check_table(*table);
    if (checked) *checked = table;
  }
  if (w.lead.there && table && !table->lead_speed.empty()) {
    fail("sim: a car ahead and a course's table that has cars ahead, expected one of them");
  }
}

}  // namespace sparkpilot::sim

// The constants of a world, in double, from what describes it; sim/world-inl.h steps it.
#pragma once

#include <algorithm>
#include <cmath>

#include "sim/steady_turn.h"
#include "sim/world-inl.h"

namespace sparkpilot::sim::scalar {

// How many of a table's rows are no later than t. `from`: so many are known to be.
inline size_t rows_until(const CourseTable& table, double t, size_t from = 0) {
  if (from >= table.time.size() || table.time[from] > t) return from;
  const auto begin = table.time.begin();
  return static_cast<size_t>(std::upper_bound(begin + static_cast<std::ptrdiff_t>(from) + 1, table.time.end(), t) -
                             begin);
}
// Where a time lies in a table: the row after it, and how far it is from the one before to that.
struct TablePlace {
  size_t above = 0;
  double part = 0;
  // To a time that is not before that of the last call.
  void move_to(const CourseTable& table, double t) {
    above = rows_until(table, t, above);
    if (above > 0 && above < table.time.size())
      part = (t - table.time[above - 1]) / (table.time[above] - table.time[above - 1]);
  }
  double of(const std::vector<double>& column) const {
    if (above == 0) return column.front();
    if (above == column.size()) return column.back();
    return column[above - 1] + part * (column[above] - column[above - 1]);
  }
};

// On a road that begins in a bend, with roll or in wind the car begins in equilibrium and moves along the lane; where
// its tyres cannot hold it there, it begins straight. The command is the one that holds the wheel, as far as it may,
// and what the controller has asked for is within its limits.
inline void begin_in_equilibrium(const WorldSpec& w, Tyres tyres, bool by_torque, const CarConstants<double>& car,
                                 const SteeringConstants<double>& steering, CourseConstants<double>& c) {
  double curvature = course_curvature(RunSettings{.rich_courses = true}, c, 0.0), roll = c.roll;
  if (w.course.table) {
    TablePlace first;
    first.move_to(*w.course.table, 0);
    curvature = first.of(w.course.table->curvature), roll = first.of(w.course.table->roll);
  }
  const bool in_wind = c.side_at <= 0 && c.side_to > 0, on_ice = c.ice_at <= 0 && c.ice_to > 0;
  const Road<double> road{.curvature = curvature,
                          .roll = roll,
                          .grade = c.grade,
                          .side = in_wind ? c.side : 0,
                          .grip = on_ice ? c.ice_grip : c.grip};
  if (curvature == 0 && roll == 0 && road.side == 0) return;
  const std::optional<SteadyTurn> turn = steady_turn(tyres, car, curvature, c.speed, road);
  c.start_wheel = turn ? turn->wheel : 0;
  const double command = by_torque ? holding_torque(steering, car, c.start_wheel, c.speed, roll) : c.start_wheel;
  c.start_command = std::clamp(command, -steering.limit, steering.limit);
  if (!turn) return;
  c.start_lateral = turn->lateral;
  c.start_yaw_rate = turn->yaw_rate;
  c.start_heading = -atan(turn->lateral / std::max(c.speed, car.low_speed));
  bool limited = false;
  c.start_desired = clip_curvature(c.speed, -curvature, -curvature, roll, limited);
  c.start_acceleration = turn->yaw_rate * motion_scale(car, c.speed) * c.speed;
}

// The constants of a world. Fails on nothing: check_world() comes first.
template <class Control>
WorldConstants<double, Control> prepare(const WorldSpec& w, Tyres tyres) {
  const auto steps = [](double seconds) { return static_cast<double>(std::lround(seconds / kStep)); };
  const auto remaining = [](double lag) { return lag > 0 ? exp(max(-kStep / lag, -80.0)) : 0.0; };
  WorldConstants<double, Control> k;
  k.car = car_constants(w.vehicle);
  if (tyres == Tyres::none) k.car.slip_factor = k.car.slip_roll = 0;  // what controllers know of the car
  k.car.drag *= 1 - w.powertrain.compensated;
  k.car.rolling *= 1 - w.powertrain.compensated;
  const double rate = kStep / kDegrees;
  k.steering = {steps(w.steering.delay),
                Control::kTorque ? 1 : w.steering.angle_limit / kDegrees,
                Control::kTorque ? w.steering.torque_rate * kStep : w.steering.angle_rate * rate,
                1 - remaining(w.steering.lag),
                w.steering.angle_rate * rate,
                w.steering.accel_factor,
                w.steering.friction * w.steering.accel_factor};
  k.lateral = Control::constants(w.lateral);
  k.longitudinal = longitudinal_constants(w.longitudinal);
  const Course& c = w.course;
  k.course = {c.curvature,
              c.wave,
              c.frequency,
              c.wave_at,
              c.wave_at + c.wave_for,
              c.turn,
              c.turn_at,
              1 / c.turn_ramp,
              c.turn2,
              c.turn2_at,
              1 / c.turn2_ramp,
              c.speed,
              c.speed_change,
              c.change_at,
              1 / c.change_ramp,
              c.brake,
              c.lane_keeping * c.lane_keeping,
              2 * c.lane_keeping,
              tyres == Tyres::none ? 0 : 1 / (3 * kGravity * k.car.rear_limit_inverse),
              c.roll,
              c.roll_change,
              c.roll_at,
              1 / c.roll_ramp,
              c.grade,
              c.grip,
              c.ice_grip,
              c.ice_at,
              c.ice_at + c.ice_for,
              c.side,
              c.side_at,
              c.side_at + c.side_for,
              c.start_offset,
              c.table ? 1.0 : 0.0};
  begin_in_equilibrium(w, tyres, Control::kTorque, k.car, k.steering, k.course);
  const Lead& l = w.lead;
  const CarFollowing& f = w.following;
  k.lead = {l.gap,
            l.speed,
            l.wave,
            l.frequency,
            l.change,
            l.change_at,
            1 / l.change_ramp,
            l.change2,
            l.change2_at,
            1 / l.change2_ramp,
            l.from,
            l.there ? l.to : -1,
            f.planner == Planner::idm ? 1.0 : 0.0,
            f.time_gap,
            f.standstill,
            f.accel,
            1 / (2 * sqrt(f.accel * f.brake)),
            f.max_brake,
            has_lead(w) && !l.there ? 1.0 : 0.0};
  k.lag_left = remaining(w.powertrain.lag);
  k.lag_mean = (1 - k.lag_left) * w.powertrain.lag / kStep;
  k.drive_delay = steps(w.powertrain.delay);
  k.lateral_delay = w.lateral_delay;
  k.delay_frames = delay_frames(w.lateral_delay);
  k.noise_angle = w.noise.angle;
  k.noise_speed = w.noise.speed;
  k.noise_curvature = w.noise.curvature;
  k.noise_acceleration = w.noise.acceleration;
  k.number_low = static_cast<double>(w.number & 0x7fffff);
  k.number_high = static_cast<double>(w.number >> 23);
  return k;
}

}  // namespace sparkpilot::sim::scalar

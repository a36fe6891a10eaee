// Worlds for tests.
#pragma once

#include <algorithm>
#include <memory>

#include "base/random.h"
#include "sim/batch.h"

namespace sparkpilot::sim {

inline constexpr Lateral kControls[] = {Lateral::pid, Lateral::torque, Lateral::angle, Lateral::mppi};
inline constexpr Lateral kGpuControls[] = {Lateral::pid, Lateral::torque, Lateral::angle};
inline constexpr Tyres kTyres[] = {Tyres::none, Tyres::linear, Tyres::saturating};

// Worlds that differ in everything: cars, delays, courses, noise.
inline WorldSpec varied(int64_t i) {
  Random random(static_cast<uint64_t>(i) + 100);
  WorldSpec w;
  w.number = static_cast<uint64_t>(i) * 1000003;
  w.vehicle = vehicle_presets()[static_cast<size_t>(i) % vehicle_presets().size()].vehicle;
  w.steering.delay = random.uniform(0, 0.3);
  w.powertrain.delay = random.uniform(0, 0.3);
  w.lateral_delay = random.uniform(0.05, 0.5);
  w.course.speed = random.uniform(0, 35);
  w.course.speed_change = random.uniform(-w.course.speed, 5);
  w.course.change_at = 2;
  w.course.wave = random.uniform(-1, 1) / std::max(100.0, w.course.speed * w.course.speed);
  w.course.frequency = random.uniform(0.1, 2);
  w.course.turn = random.uniform(-1, 1) / std::max(100.0, w.course.speed * w.course.speed);
  w.course.turn_at = 1;
  w.course.roll = random.uniform(-0.05, 0.05);
  w.course.grade = random.uniform(-0.05, 0.05);
  w.course.grip = random.uniform(0.3, 1);
  w.course.ice_grip = 0.2;
  w.course.ice_at = 3;
  w.course.ice_for = 0.5;
  w.course.side = random.uniform(-1, 1);
  w.course.side_at = 4;
  w.course.side_for = 0.5;
  if (i % 2) w.noise = {0.1, 0.05, 1e-5, 0.05};
  if (i % 4 == 0) {
    w.course.wave_at = random.uniform(0, 2);
    w.course.wave_for = random.uniform(2, 10);
    w.course.turn2 = -w.course.turn;
    w.course.turn2_at = 4;
    w.course.roll_change = random.uniform(-0.03, 0.03);
  }
  w.course.start_offset = random.uniform(-1, 1);
  if (i % 3 == 0) {
    w.lead = {
        .there = true, .gap = random.uniform(20, 60), .speed = random.uniform(5, 25), .wave = 2, .frequency = 0.5};
    w.lead.from = i % 2 ? 1 : 0;
  }
  if (i % 5 == 0) {
    const double curvature = w.course.turn;
    // Every other one begins in a bend.
    const double at_once = i % 2 ? curvature : 0;
    CourseTable table{
        {0, 1, 2.5, 4}, {at_once, curvature, curvature, 0}, {w.course.speed, 20, 15, 18}, {0, 0.02, 0.02, 0}};
    if (i % 3 == 1) {  // one car ahead and then another
      table.lead_speed = {random.uniform(5, 25), random.uniform(5, 25), random.uniform(5, 25), {}};
      table.lead_gap = {random.uniform(20, 60), random.uniform(20, 60), {}, {}};
    }
    w.course.table = std::make_shared<const CourseTable>(table);
  }
  w.powertrain.compensated = i % 7 == 0 ? 1 : random.uniform(0, 1);
  return w;
}

}  // namespace sparkpilot::sim

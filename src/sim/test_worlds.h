// Worlds for tests.
#pragma once

#include <algorithm>

#include "base/random.h"
#include "sim/batch.h"

namespace sparkpilot::sim {

inline constexpr Lateral kControls[] = {Lateral::pid, Lateral::torque, Lateral::angle};
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
  return w;
}

}  // namespace sparkpilot::sim

// For tests: drives of simulated cars as a log's signals, with the truth known.
#pragma once

#include <cmath>
#include <memory>

#include "base/random.h"
#include "route/log/car_signals.h"
#include "sim/alone-inl.h"

namespace sparkpilot::sim {

// A road that winds as a seed says, at speeds between 9 and 29 m/s, at most 2 m/s^2 aside.
inline std::shared_ptr<const CourseTable> winding_course(uint64_t seed, double seconds) {
  Random random(seed);
  CourseTable table;
  const double phase = random.uniform(0, 6), second = random.uniform(0, 6), third = random.uniform(0, 6);
  for (double t = 0; t <= seconds; t += 0.25) {
    const double speed = 19 + 10 * std::sin(0.05 * t + phase);
    const double lateral = 1.2 * std::sin(0.31 * t + second) + 0.8 * std::sin(0.83 * t + third);
    table.time.push_back(t);
    table.speed.push_back(speed);
    table.curvature.push_back(lateral / (speed * speed));
    table.roll.push_back(0.02 * std::sin(0.11 * t + second));
  }
  return std::make_shared<const CourseTable>(std::move(table));
}

struct DriveNoise {
  double wheel_degrees = 0.05, speed = 0.05, yaw_rate = 0.004;
};

// What a log of this world says: carState and commands at 100 Hz, yaw rate and roll at 20 Hz, carParams as `believed`.
template <class Control, Tyres kTyres>
drive::CarSignals drive_world(const WorldSpec& world, double seconds, const Vehicle& believed, uint64_t seed,
                              const DriveNoise& noise = {}, double wheel_offset_degrees = 1.2) {
  drive::CarSignals out;
  Random random(seed);
  const scalar::RunSettings run{seed, 0, has_noise(world.noise), has_lead(world), scalar::is_rich(world.course)};
  const auto time_of = [](int step) { return 1'000'000'000 + uint64_t{10'000'000} * static_cast<uint64_t>(step); };
  const auto see = [&](int step, const auto& k, const scalar::WorldState<double, Control>& s) {
    // The command is that of the step's beginning, the state that of its end.
    out.active.add(time_of(step), true);
    out.enabled.add(time_of(step), true);
    if (Control::kTorque) out.command.add(time_of(step), {s.steering.command, 0});
    else out.command.add(time_of(step), {0, s.steering.command + wheel_offset_degrees / kDegrees});
    const auto after = time_of(step + 1);
    drive::MotionSample motion;
    motion.speed = std::max(s.motion.speed + noise.speed * random.normal(), 0.0);
    motion.acceleration = s.motion.acceleration;
    motion.wheel = s.steering.wheel + (wheel_offset_degrees + noise.wheel_degrees * random.normal()) / kDegrees;
    motion.standstill = s.motion.speed < 0.01;
    motion.usable = true;
    out.motion.add(after, motion);
    if (step % 5 == 4) {
      const double rate = s.motion.yaw_rate * motion_scale(k.car, s.motion.speed);
      out.yaw_rate.add(after, rate + noise.yaw_rate * random.normal());
      out.parameters.add(after, {s.road.roll, 0, believed.steer_ratio, 1});
    }
  };
  scalar::run_world<double, Control>(world, run, static_cast<int>(seconds / kStep), kTyres, see);
  out.yaw_source = "livePose";
  out.command_source = "carOutput";
  drive::CarFacts facts;
  facts.fingerprint = "SIMULATED";
  facts.mass = believed.mass;
  facts.inertia = believed.inertia;
  facts.wheelbase = believed.wheelbase;
  facts.center_to_front = believed.center_to_front;
  facts.stiffness_front = believed.stiffness_front;
  facts.stiffness_rear = believed.stiffness_rear;
  facts.steer_ratio = believed.steer_ratio;
  facts.steer_delay = 0.1;
  facts.control = Control::kTorque ? drive::SteerControl::torque : drive::SteerControl::angle;
  out.car = facts;
  return out;
}

// A world whose car, steering and road are drawn from a seed, and what is believed of the car beforehand.
struct DrawnDrive {
  WorldSpec world;
  Vehicle believed;
  double stiffness = 1;  // the true factor on what is believed
};
inline DrawnDrive drawn_drive(uint64_t seed, double seconds) {
  Random random(seed + 1000);
  DrawnDrive out;
  const auto presets = vehicle_presets();
  out.believed = presets[seed % presets.size()].vehicle;
  out.stiffness = random.uniform(0.7, 1.2);
  Vehicle car = out.believed;
  car.steer_ratio *= random.uniform(0.88, 1.12);
  car.stiffness_front *= out.stiffness;
  car.stiffness_rear *= out.stiffness;
  out.world.number = seed;
  out.world.vehicle = car;
  Steering& steering = out.world.steering;
  steering.delay = 0.01 * static_cast<double>(random.integer(3, 30));
  steering.lag = random.uniform(0.05, 0.2);
  steering.accel_factor = random.uniform(1.5, 3);
  steering.friction = random.uniform(0.06, 0.26);
  out.world.lateral.accel_factor = steering.accel_factor * random.uniform(0.85, 1.15);
  out.world.lateral.friction = steering.friction * random.uniform(0.7, 1.3);
  out.world.lateral_delay = steering.delay + steering.lag;
  out.world.noise = {0.05, 0.05, 1e-5, 0.02};
  out.world.course.table = winding_course(seed, seconds);
  out.world.course.speed = out.world.course.table->speed.front();
  return out;
}

}  // namespace sparkpilot::sim

// What a route's logs say of the car's motion, its steering and the commands that it was given: what a model of the car
// is fitted to, and courses are made of. In SI units; angles, curvature and yaw rate are positive to the left.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "route/log/timeline.h"

namespace sparkpilot::drive {

// carState. Times of all samples are those of the log's clock, at which they were published.
struct MotionSample {
  double speed = 0, acceleration = 0;  // m/s, m/s^2
  double wheel = 0;                    // rad, of the steering wheel, as the car says it
  bool steering_pressed = false, pedal_pressed = false, standstill = false;
  bool usable = false;  // the message was valid, and the car does not drive backwards
};

// What openpilot gave the car: carOutput (what the car's limits left of it), in older logs carControl.
struct CommandSample {
  double torque = 0;  // -1 to 1
  double wheel = 0;   // rad
};

// liveParameters.
struct ParameterSample {
  double roll = 0;                                          // rad, of the road
  double angle_offset = 0, steer_ratio = 0, stiffness = 0;  // rad; -; a factor
};

// The car ahead: radarState.leadOne, in a log without radarState the first of modelV2.leadsV3.
struct LeadSample {
  bool there = false;
  double gap = 0, speed = 0;  // m, m/s
};

// carParams.
enum class SteerControl { torque, angle, curvature };
struct CarFacts {
  std::string fingerprint;
  double mass = 0, inertia = 0, wheelbase = 0, center_to_front = 0;  // kg, kg m^2, m
  double stiffness_front = 0, stiffness_rear = 0;                    // N/rad
  double steer_ratio = 0, steer_ratio_rear = 0;
  double steer_delay = 0;  // s
  SteerControl control = SteerControl::torque;
  std::optional<double> accel_factor, friction;  // of lateralTuning.torque: m/s^2, of full torque
};

struct CarSignals {
  Samples<MotionSample> motion;
  Samples<double> yaw_rate;  // rad/s
  std::string yaw_source;    // livePose, liveLocationKalman, gyroscope or carState; empty: none
  Samples<bool> active;      // openpilot steers
  Samples<bool> enabled;     // openpilot is engaged
  Samples<CommandSample> command;
  std::string command_source;           // carOutput, carControl.actuatorsOutput, carControl.actuators; empty: none
  Samples<ParameterSample> parameters;  // valid ones
  Samples<bool> lane_change;            // the car changes lanes
  Samples<LeadSample> lead;
  std::string lead_source;                                 // radarState or modelV2; empty: none
  std::optional<CarFacts> car;                             // the last
  std::optional<double> live_accel_factor, live_friction;  // liveTorqueParameters, the last valid ones
  int64_t unreadable = 0;                                  // events with damage
};

// Collects one log after the other, of one route and in the order of its segments.
class CarSignalsReader {
 public:
  CarSignalsReader();
  ~CarSignalsReader();
  CarSignalsReader(const CarSignalsReader&) = delete;
  CarSignalsReader& operator=(const CarSignalsReader&) = delete;

  // Reads to the end; numbers that are not finite, and those that no car has, are left out. `progress`: 0 to 1. At most
  // `events` of them; 0: all.
  void add(LogReader& log, const std::function<void(double)>& progress = {}, int64_t events = 0);
  // What was read, in the order of time; then the reader is empty.
  CarSignals take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive

#include <cmath>

#include "route/synth/log_fill.h"

namespace sparkpilot::drive::synth {

double Vehicle::steering_angle(double curvature, double speed) const {
  const double to_rear = wheelbase - centre_to_front;
  const double slip = mass * (front_stiffness * centre_to_front - rear_stiffness * to_rear) /
                      (wheelbase * wheelbase * front_stiffness * rear_stiffness);
  // openpilot's curvatures are positive to the right, its steering angles to the left.
  return -curvature * wheelbase * (1 - slip * speed * speed) * steer_ratio * 180 / kPi;
}

namespace {

struct Blinkers {
  bool left = false, right = false;
};

Blinkers blinkers(const World& world, double time) {
  Blinkers out;
  for (const LaneChange& change : world.traffic().lane_changes()) {
    if (time < change.decided || time >= change.ends) continue;
    const bool right = (change.to > change.from) == (world.road().side() > 0);
    (right ? out.right : out.left) = true;
  }
  return out;
}

double steering_at(const LogContext& t, double time) {
  const Pose pose = t.world.pose(time);
  return t.vehicle.steering_angle(pose.curvature, pose.speed);
}

}  // namespace

// Two dozen messages of eight bytes, as a car's bus carries in 10 ms: speed, angle, counters, and constant bytes.
void fill_can(const LogContext& t, cereal::Event::Builder event, int64_t index, double time) {
  const Pose pose = t.world.pose(time);
  const auto speed = static_cast<uint16_t>(pose.speed * 3.6 * 100 + 6767);
  const auto angle =
      static_cast<int16_t>(clamped(t.vehicle.steering_angle(pose.curvature, pose.speed) * 10, -32000.0, 32000.0));
  constexpr unsigned kMessages = 24;
  auto list = event.initCan(kMessages);
  for (unsigned i = 0; i < kMessages; ++i) {
    auto message = list[i];
    message.setAddress(i == 0 ? 0xAA : (i == 1 ? 0x25 : 0x100 + 16 * i));
    message.setSrc(static_cast<uint8_t>(i % 3));
    uint8_t bytes[8] = {};
    if (i == 0) {
      for (size_t wheel = 0; wheel < 4; ++wheel)
        bytes[2 * wheel] = static_cast<uint8_t>(speed >> 8), bytes[2 * wheel + 1] = static_cast<uint8_t>(speed);
    } else if (i == 1) {
      bytes[0] = static_cast<uint8_t>(static_cast<uint16_t>(angle) >> 8), bytes[1] = static_cast<uint8_t>(angle);
    } else {
      for (unsigned k = 0; k < 6; ++k)
        bytes[k] = static_cast<uint8_t>(hash(i, k, static_cast<uint32_t>(index) >> (i % 8 + 2)));
    }
    if (i != 0) {
      bytes[6] = static_cast<uint8_t>(index & 15);
      unsigned sum = i;
      for (int k = 0; k < 7; ++k) sum += bytes[k];
      bytes[7] = static_cast<uint8_t>(sum);
    }
    message.setDat(kj::arrayPtr(bytes, 8));
  }
}

void fill_car_state(const LogContext& t, cereal::CarState::Builder b, double time) {
  const Pose pose = t.world.pose(time);
  const auto speed = static_cast<float>(pose.speed);
  const Blinkers lamps = blinkers(t.world, time);
  const double angle = t.vehicle.steering_angle(pose.curvature, pose.speed);
  b.setVEgo(speed);
  b.setVEgoRaw(speed);
  b.setVEgoCluster(speed);
  b.setAEgo(static_cast<float>(pose.acceleration));
  auto wheels = b.initWheelSpeeds();
  wheels.setFl(speed), wheels.setFr(speed), wheels.setRl(speed), wheels.setRr(speed);
  b.setSteeringAngleDeg(static_cast<float>(angle));
  b.setSteeringRateDeg(static_cast<float>((steering_at(t, time + 0.01) - steering_at(t, time - 0.01)) / 0.02));
  b.setYawRate(static_cast<float>(-pose.rate[2]));
  b.setStandstill(pose.speed < 0.01);
  b.setLeftBlinker(lamps.left);
  b.setRightBlinker(lamps.right);
  b.setGearShifter(cereal::CarState::GearShifter::DRIVE);
  b.setCanValid(true);
  b.setVCruise(static_cast<float>(t.cruise_kph()));
  b.setVCruiseCluster(static_cast<float>(t.cruise_kph()));
  auto cruise = b.initCruiseState();
  cruise.setEnabled(true);
  cruise.setAvailable(true);
  cruise.setSpeed(static_cast<float>(t.world.cruise()));
  cruise.setSpeedCluster(static_cast<float>(t.world.cruise()));
  cruise.setStandstill(pose.speed < 0.01);
  b.setBrakePressed(false);
  b.setFuelGauge(0.7F);
}

void fill_car_control(const LogContext& t, cereal::CarControl::Builder b, double time) {
  const Pose pose = t.world.pose(time), soon = t.world.pose(time + t.vehicle.steer_delay);
  const Blinkers lamps = blinkers(t.world, time);
  b.setEnabled(true);
  b.setLatActive(true);
  b.setLongActive(true);
  b.setLeftBlinker(lamps.left);
  b.setRightBlinker(lamps.right);
  b.setCurrentCurvature(static_cast<float>(pose.curvature));
  auto actuators = b.initActuators();
  actuators.setCurvature(static_cast<float>(soon.curvature));
  actuators.setSteeringAngleDeg(static_cast<float>(t.vehicle.steering_angle(soon.curvature, soon.speed)));
  actuators.setAccel(static_cast<float>(t.world.pose(time + t.vehicle.accelerator_delay).acceleration));
  actuators.setSpeed(static_cast<float>(soon.speed));
  actuators.setLongControlState(cereal::CarControl::Actuators::LongControlState::PID);
  fill_list(b.initOrientationNED(3), euler(pose.ned_from_calib));
  fill_list(b.initAngularVelocity(3), pose.rate);
  auto hud = b.initHudControl();
  hud.setSpeedVisible(true);
  hud.setSetSpeed(static_cast<float>(t.world.cruise()));
  hud.setLanesVisible(true);
  hud.setLeftLaneVisible(true);
  hud.setRightLaneVisible(true);
}

void fill_controls_state(const LogContext& t, cereal::ControlsState::Builder b, double time) {
  const Pose pose = t.world.pose(time), soon = t.world.pose(time + t.vehicle.steer_delay);
  b.setCurvature(static_cast<float>(pose.curvature));
  b.setDesiredCurvature(static_cast<float>(soon.curvature));
  b.setEnabled(true);
  b.setActive(true);
  b.setState(cereal::SelfdriveState::OpenpilotState::ENABLED);
  b.setLongControlState(cereal::CarControl::Actuators::LongControlState::PID);
  b.setATarget(static_cast<float>(soon.acceleration));
  b.setVPid(static_cast<float>(pose.speed));
  b.setVCruise(static_cast<float>(t.cruise_kph()));
  b.setVCruiseCluster(static_cast<float>(t.cruise_kph()));
  auto angle = b.initLateralControlState().initAngleState();
  angle.setActive(true);
  angle.setSteeringAngleDeg(static_cast<float>(t.vehicle.steering_angle(pose.curvature, pose.speed)));
  angle.setSteeringAngleDesiredDeg(static_cast<float>(t.vehicle.steering_angle(soon.curvature, soon.speed)));
}

}  // namespace sparkpilot::drive::synth

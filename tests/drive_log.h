// For tests: signals of a drive (sim/test_drive.h) as a log in openpilot's format, of two eras.
#pragma once

#include <capnp/message.h>
#include <route/log/schema/log.capnp.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numbers>
#include <vector>

#include "route/log/car_signals.h"
#include "route/log/writer.h"

namespace sparkpilot {

// `older`: as in 2023, liveLocationKalman and actuatorsOutput in carControl; else livePose and carOutput.
inline void write_drive_log(const std::filesystem::path& file, const drive::CarSignals& signals, bool older = false) {
  using Fill = std::function<void(cereal::Event::Builder)>;
  std::vector<std::pair<uint64_t, Fill>> events;
  constexpr double kDegree = 180 / std::numbers::pi;
  const auto add = [&](uint64_t time, Fill fill) { events.emplace_back(time, std::move(fill)); };
  if (signals.car) {
    const drive::CarFacts& car = *signals.car;
    add(1, [&car](cereal::Event::Builder event) {
      auto b = event.initCarParams();
      b.setCarFingerprint(car.fingerprint);
      b.setMass(static_cast<float>(car.mass));
      b.setRotationalInertia(static_cast<float>(car.inertia));
      b.setWheelbase(static_cast<float>(car.wheelbase));
      b.setCenterToFront(static_cast<float>(car.center_to_front));
      b.setTireStiffnessFront(static_cast<float>(car.stiffness_front));
      b.setTireStiffnessRear(static_cast<float>(car.stiffness_rear));
      b.setSteerRatio(static_cast<float>(car.steer_ratio));
      b.setSteerActuatorDelay(static_cast<float>(car.steer_delay));
      b.setSteerControlType(car.control == drive::SteerControl::angle ? cereal::CarParams::SteerControlType::ANGLE
                                                                      : cereal::CarParams::SteerControlType::TORQUE);
      b.initLateralTuning().initTorque();
    });
  }
  for (const auto& [time, motion] : signals.motion) {
    add(time, [motion = motion](cereal::Event::Builder event) {
      auto b = event.initCarState();
      b.setVEgo(static_cast<float>(motion.speed));
      b.setAEgo(static_cast<float>(motion.acceleration));
      b.setSteeringAngleDeg(static_cast<float>(motion.wheel * kDegree));
      b.setSteeringPressed(motion.steering_pressed);
      b.setBrakePressed(motion.pedal_pressed);
      b.setStandstill(motion.standstill);
      b.setGearShifter(cereal::CarState::GearShifter::DRIVE);
    });
  }
  for (const auto& [time, command] : signals.command) {
    const bool* const active = signals.active.at(time);
    const auto fill = [command = command](cereal::CarControl::Actuators::Builder b) {
      b.setTorque(static_cast<float>(command.torque));
      b.setSteeringAngleDeg(static_cast<float>(command.wheel * kDegree));
    };
    add(time, [=, on = active != nullptr && *active](cereal::Event::Builder event) {
      auto b = event.initCarControl();
      b.setLatActive(on);
      if (older) fill(b.initActuatorsOutputDEPRECATED());
      b.initActuators().setTorque(0.5f);  // what the car's limits made of it counts
    });
    if (older) continue;
    add(time, [=](cereal::Event::Builder event) { fill(event.initCarOutput().initActuatorsOutput()); });
  }
  for (const auto& [time, rate] : signals.yaw_rate) {
    add(time, [older, rate = rate](cereal::Event::Builder event) {
      if (older) {
        auto b = event.initLiveLocationKalman().initAngularVelocityCalibrated();
        b.initValue(3).set(2, -rate);
        b.setValid(true);
      } else {
        auto b = event.initLivePose().initAngularVelocityDevice();
        b.setZ(static_cast<float>(-rate));
        b.setValid(true);
      }
    });
  }
  for (const auto& [time, parameters] : signals.parameters) {
    add(time, [parameters = parameters](cereal::Event::Builder event) {
      auto b = event.initLiveParameters();
      b.setValid(true);
      b.setRoll(static_cast<float>(parameters.roll));
      b.setSteerRatio(static_cast<float>(parameters.steer_ratio));
      b.setStiffnessFactor(static_cast<float>(parameters.stiffness));
    });
  }
  for (const auto& [time, enabled] : signals.enabled) {
    add(time, [older, enabled = enabled](cereal::Event::Builder event) {
      if (older) event.initControlsState().setEnabled(enabled);
      else event.initSelfdriveState().setEnabled(enabled);
    });
  }
  for (const auto& [time, changes] : signals.lane_change) {
    add(time, [changes = changes](cereal::Event::Builder event) {
      event.initModelV2().initMeta().setLaneChangeState(changes ? cereal::LaneChangeState::LANE_CHANGE_STARTING
                                                                : cereal::LaneChangeState::OFF);
    });
  }
  for (const auto& [time, lead] : signals.lead) {
    add(time, [lead = lead](cereal::Event::Builder event) {
      auto b = event.initRadarState().initLeadOne();
      b.setStatus(lead.there);
      b.setDRel(static_cast<float>(lead.gap));
      b.setVLead(static_cast<float>(lead.speed));
    });
  }
  std::ranges::stable_sort(events, {}, [](const auto& event) { return event.first; });
  drive::LogWriter writer(file);
  for (const auto& [time, fill] : events) {
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<cereal::Event>();
    event.setLogMonoTime(time);
    fill(event);
    writer.write(message);
  }
  writer.commit();
}

}  // namespace sparkpilot

// Fill the events' fields, by subject.
#pragma once

#include <route/log/schema/log.capnp.h>

#include <cmath>

#include "route/synth/log.h"
#include "route/synth/truth.h"

namespace sparkpilot::drive::synth {

// The common inputs of all of them.
struct LogContext {
  const World& world;
  const LogOptions& options;
  Vehicle vehicle;

  uint64_t mono(double time) const { return kFirstMonoTime + static_cast<uint64_t>(std::llround(time * 1e9)); }
  uint32_t frame_id(int64_t frame) const {
    return static_cast<uint32_t>(int64_t{options.first_segment} * kFramesPerSegment + frame);
  }
  double cruise_kph() const { return world.cruise() * 3.6; }
};

template <typename List, typename Values>
void fill_list(List list, const Values& values) {
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, static_cast<float>(values[i]));
}

// log_device.cc: the machine itself.
void fill_init(const LogContext& t, cereal::InitData::Builder b, double time);
void fill_car_params(const LogContext& t, cereal::CarParams::Builder b);
void fill_device_state(const LogContext& t, cereal::DeviceState::Builder b, double time);
void fill_camera_state(const LogContext& t, cereal::FrameData::Builder b, int64_t frame);
void fill_encode_index(const LogContext& t, cereal::EncodeIndex::Builder b, int64_t frame,
                       cereal::EncodeIndex::Type type);
void fill_panda_state(cereal::PandaState::Builder b, double time);

// log_car.cc: the car and its controls.
void fill_can(const LogContext& t, cereal::Event::Builder event, int64_t index, double time);
void fill_car_state(const LogContext& t, cereal::CarState::Builder b, double time);
void fill_car_control(const LogContext& t, cereal::CarControl::Builder b, double time);
void fill_controls_state(const LogContext& t, cereal::ControlsState::Builder b, double time);

// log_pose.cc: the device's position and mounting.
void fill_calibration(const LogContext& t, cereal::LiveCalibrationData::Builder b);
void fill_parameters(const LogContext& t, cereal::LiveParametersData::Builder b, double time);
void fill_location(const LogContext& t, cereal::LiveLocationKalman::Builder b, double time);
void fill_pose(const LogContext& t, cereal::LivePose::Builder b, double time);
void fill_gps(const LogContext& t, cereal::GpsLocationData::Builder b, double time);
void fill_accelerometer(const LogContext& t, cereal::SensorEventData::Builder b, double time);
void fill_gyroscope(const LogContext& t, cereal::SensorEventData::Builder b, double time);

// log_model.cc: a perfect model's outputs.
void fill_model(const LogContext& t, cereal::ModelDataV2::Builder b, const FrameTruth& truth, int64_t frame);
void fill_model_data(const LogContext& t, cereal::DrivingModelData::Builder b, const FrameTruth& truth, int64_t frame);
void fill_odometry(const LogContext& t, cereal::CameraOdometry::Builder b, const FrameTruth& truth, int64_t frame);
void fill_radar(const LogContext& t, cereal::RadarState::Builder b, const FrameTruth& truth);

}  // namespace sparkpilot::drive::synth

#include <fmt/format.h>

#include "route/synth/log_fill.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr uint64_t kWallStart = 1'750'000'000'000'000'000;  // nanoseconds since 1970 at every world's first frame

cereal::InitData::DeviceType device_type(const std::string& name) {
  using Type = cereal::InitData::DeviceType;
  return name == "mici" ? Type::MICI : (name == "neo" ? Type::NEO : (name == "tizi" ? Type::TIZI : Type::TICI));
}

cereal::FrameData::ImageSensor image_sensor(const std::string& name) {
  using Sensor = cereal::FrameData::ImageSensor;
  return name == "os04c10"
             ? Sensor::OS04C10
             : (name == "ar0231" ? Sensor::AR0231 : (name == "ox03c10" ? Sensor::OX03C10 : Sensor::UNKNOWN));
}

}  // namespace

void fill_init(const LogContext& t, cereal::InitData::Builder b, double time) {
  b.setDongleId(t.options.dongle);
  b.setDeviceType(device_type(t.options.device_type));
  b.setVersion("sparkpilot-synth");
  b.setGitBranch("synth");
  b.setGitRemote("sparkpilot");
  b.setOsVersion("synth");
  b.setWallTimeNanos(kWallStart + static_cast<uint64_t>(time * 1e9));
  b.setBootlogId(t.options.log_id);
  // The route's name, in the kernel arguments: openpilot logs that field but nothing reads it.
  auto arguments = b.initKernelArgs(2);
  arguments.set(0, fmt::format("synth.route={}|{}", t.options.dongle, t.options.log_id));
  arguments.set(1, fmt::format("synth.seed={}", t.world.options().seed));
}

void fill_car_params(const LogContext& t, cereal::CarParams::Builder b) {
  const Vehicle& vehicle = t.vehicle;
  b.setBrand("mock");
  b.setCarFingerprint("MOCK");
  b.setMass(static_cast<float>(vehicle.mass));
  b.setWheelbase(static_cast<float>(vehicle.wheelbase));
  b.setCenterToFront(static_cast<float>(vehicle.centre_to_front));
  b.setSteerRatio(static_cast<float>(vehicle.steer_ratio));
  b.setSteerRatioRear(0);
  b.setRotationalInertia(2560);
  b.setTireStiffnessFront(static_cast<float>(vehicle.front_stiffness));
  b.setTireStiffnessRear(static_cast<float>(vehicle.rear_stiffness));
  b.setTireStiffnessFactor(1);
  b.setSteerControlType(cereal::CarParams::SteerControlType::ANGLE);
  b.setSteerActuatorDelay(static_cast<float>(vehicle.steer_delay));
  b.setSteerLimitTimer(1);
  b.setLongitudinalActuatorDelay(static_cast<float>(vehicle.accelerator_delay));
  b.setOpenpilotLongitudinalControl(true);
  b.setMinEnableSpeed(-1);
  b.setTransmissionType(cereal::CarParams::TransmissionType::AUTOMATIC);
  b.setStopAccel(-2);
  b.setMaxLateralAccel(3);
  b.setWheelSpeedFactor(1);
  b.setRadarUnavailable(true);
  b.setAutoResumeSng(true);
  b.initSafetyConfigs(1)[0].setSafetyModel(cereal::CarParams::SafetyModel::NO_OUTPUT);
}

void fill_device_state(const LogContext& t, cereal::DeviceState::Builder b, double time) {
  b.setDeviceType(device_type(t.options.device_type));
  b.setStarted(true);
  b.setStartedMonoTime(kFirstMonoTime - 5'000'000'000);
  b.setFreeSpacePercent(80);
  b.setMemoryUsagePercent(45);
  b.setThermalStatus(cereal::DeviceState::ThermalStatus::GREEN);
  b.setMaxTempC(static_cast<float>(62 + 0.002 * time));
  b.setFanSpeedPercentDesired(30);
  b.setScreenBrightnessPercent(65);
  b.setPowerDrawW(7);
  fill_list(b.initCpuTempC(4), std::array<double, 4>{60, 61, 62, 61});
  auto use = b.initCpuUsagePercent(4);
  for (unsigned i = 0; i < 4; ++i) use.set(i, 55);
}

void fill_camera_state(const LogContext& t, cereal::FrameData::Builder b, int64_t frame) {
  const double time = static_cast<double>(frame) / kFramesPerSecond;
  b.setFrameId(t.frame_id(frame));
  b.setFrameIdSensor(t.frame_id(frame));
  b.setRequestId(t.frame_id(frame));
  b.setTimestampEof(t.mono(time));
  b.setTimestampSof(t.mono(time) - 18'000'000);
  b.setSensor(image_sensor(t.options.sensor));
  b.setProcessingTime(0.004F);
  b.setIntegLines(1200);
  b.setGain(1);
  b.setExposureValPercent(t.world.scene().headlights ? 60 : 4);
  b.setMeasuredGreyFraction(0.3F);
  b.setTargetGreyFraction(0.3F);
}

void fill_encode_index(const LogContext& t, cereal::EncodeIndex::Builder b, int64_t frame,
                       cereal::EncodeIndex::Type type) {
  const double time = static_cast<double>(frame) / kFramesPerSecond;
  const auto id = static_cast<uint32_t>(frame % kFramesPerSegment);
  b.setFrameId(t.frame_id(frame));
  b.setEncodeId(t.frame_id(frame));
  b.setType(type);
  b.setSegmentNum(static_cast<int32_t>(t.options.first_segment + frame / kFramesPerSegment));
  b.setSegmentId(id);
  b.setSegmentIdEncode(id);
  b.setTimestampEof(t.mono(time));
  b.setTimestampSof(t.mono(time) - 18'000'000);
  b.setFlags(id % 20 == 0 ? 8 : 0);  // V4L2_BUF_FLAG_KEYFRAME
}

void fill_panda_state(cereal::PandaState::Builder b, double time) {
  b.setVoltage(13800);
  b.setCurrent(1200);
  b.setIgnitionLine(true);
  b.setControlsAllowed(true);
  b.setPandaType(cereal::PandaState::PandaType::TRES);
  b.setSafetyModel(cereal::CarParams::SafetyModel::NO_OUTPUT);
  b.setHarnessStatus(cereal::PandaState::HarnessStatus::NORMAL);
  b.setUptime(static_cast<uint32_t>(100 + time));
}

}  // namespace sparkpilot::drive::synth

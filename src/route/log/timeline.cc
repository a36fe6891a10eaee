#include "route/log/timeline.h"

#include <cmath>
#include <tuple>
#include <unordered_map>

#include "route/log/reader.h"

namespace sparkpilot::drive {
namespace {

using Kind = cereal::Event::Which;

template <typename ListReader>
std::optional<Vector3> three(const ListReader& list) {
  if (list.size() < 3) return {};
  const Vector3 out{list[0], list[1], list[2]};
  for (const double value : out) {
    if (!std::isfinite(value)) return {};
  }
  return out;
}

std::optional<Vector3> three(cereal::LiveLocationKalman::Measurement::Reader m) {
  return m.getValid() ? three(m.getValue()) : std::nullopt;
}

std::optional<Vector3> three(cereal::LivePose::XYZMeasurement::Reader m) {
  const Vector3 out{m.getX(), m.getY(), m.getZ()};
  const bool finite = std::isfinite(out[0]) && std::isfinite(out[1]) && std::isfinite(out[2]);
  return m.getValid() && finite ? std::optional(out) : std::nullopt;
}

template <typename Enum>
std::string enum_name(Enum value, std::initializer_list<const char*> names) {
  const auto index = static_cast<size_t>(value);
  return index < names.size() ? names.begin()[index] : "unknown";
}

void take_index(cereal::EncodeIndex::Reader in, std::vector<IndexedFrame>& out) {
  uint64_t eof = in.getTimestampEof();
  if (eof == 0) eof = in.getTimestampSof();
  out.push_back({in.getFrameId(), in.getSegmentId(), in.getTimestampSof(), eof});
}

void take_moment(uint64_t time, Timeline& out) {
  if (time > 0) out.first_moment = std::min(time, out.first_moment.value_or(time));
}

void take_car(uint64_t time, cereal::CarState::Reader car, Timeline& out) {
  take_moment(time, out);
  if (!std::isfinite(car.getVEgo()) || !std::isfinite(car.getSteeringAngleDeg())) return;
  out.car.add(time, {car.getVEgo(), car.getAEgo(), car.getSteeringAngleDeg(), car.getYawRate(), car.getLeftBlinker(),
                     car.getRightBlinker(), car.getSteeringPressed() || car.getGasPressed() || car.getBrakePressed()});
}

// Its speeds are valid without a satellite fix; livePose has them in newer logs.
void take_speeds(uint64_t time, cereal::LiveLocationKalman::Reader in, Samples<PoseSample>& out) {
  const auto velocity = three(in.getVelocityDevice()), turn = three(in.getAngularVelocityDevice());
  if (!velocity || !turn || *velocity == Vector3{}) return;
  out.add(time, {*velocity, *turn, three(in.getOrientationNED()).value_or(Vector3{})});
}

void take_location(uint64_t time, cereal::LiveLocationKalman::Reader in, Timeline& out) {
  const auto position = three(in.getPositionECEF()), velocity = three(in.getVelocityCalibrated());
  const auto turn = three(in.getAngularVelocityCalibrated());
  auto orientation = three(in.getCalibratedOrientationECEF());
  if (!orientation) orientation = three(in.getOrientationECEF());
  if (!position || !orientation || in.getStatus() == cereal::LiveLocationKalman::Status::UNINITIALIZED) return;
  out.location.add(time, {*position, *orientation, velocity.value_or(Vector3{}), turn.value_or(Vector3{})});
}

void take_pose(uint64_t time, cereal::LivePose::Reader in, Timeline& out) {
  const auto velocity = three(in.getVelocityDevice()), turn = three(in.getAngularVelocityDevice());
  if (!velocity || !turn) return;
  out.pose.add(time, {*velocity, *turn, three(in.getOrientationNED()).value_or(Vector3{})});
}

void take_calibration(uint64_t time, cereal::LiveCalibrationData::Reader in, Timeline& out) {
  if (in.getRpyCalib().size() == 0) return;
  if (const auto rpy = three(in.getRpyCalib())) out.calibration.add(time, *rpy);
  else ++out.bad_calibrations;
}

// Logs of 2023 name the device only in initData.
void take_device_type(cereal::InitData::DeviceType type, Timeline& out) {
  if (type == cereal::InitData::DeviceType::UNKNOWN) return;
  out.device_type = enum_name(type, {"unknown", "neo", "chffrAndroid", "chffrIos", "tici", "pc", "tizi", "mici"});
}

void take_device(const cereal::Event::Reader& event, Timeline& out) {
  if (event.which() == Kind::INIT_DATA) {
    out.version = event.getInitData().getVersion().cStr();
    out.dongle_id = event.getInitData().getDongleId().cStr();
    take_device_type(event.getInitData().getDeviceType(), out);
  } else if (event.which() == Kind::DEVICE_STATE) {
    take_device_type(event.getDeviceState().getDeviceType(), out);
  } else if (event.which() == Kind::ROAD_CAMERA_STATE) {
    take_moment(event.getRoadCameraState().getTimestampEof(), out);
    out.sensor = enum_name(event.getRoadCameraState().getSensor(), {"unknown", "ar0231", "ox03c10", "os04c10"});
  } else {
    const auto car = event.getCarParams();
    out.car_fingerprint = car.getCarFingerprint().cStr();
    out.steer_actuator_delay = car.getSteerActuatorDelay();
    out.longitudinal_actuator_delay = car.getLongitudinalActuatorDelay();
  }
}

void take_model(uint64_t time, const cereal::Event::Reader& event, const TimelineOptions& options, Timeline& out) {
  const auto meta = event.getModelV2().getMeta();
  out.lane_change.add(time,
                      {static_cast<int>(meta.getLaneChangeState()), static_cast<int>(meta.getLaneChangeDirection())});
  if (options.models) out.models.push_back(read_model(event));
}

// When a camera's frames began and ended, by frame id.
using FrameTimes = std::unordered_map<uint32_t, std::pair<uint64_t, uint64_t>>;

// Values that newer logs have in other messages; used if the log has only these.
struct Older {
  Samples<bool> enabled;
  Samples<LaneChangeSample> lane_change;
  Samples<PoseSample> pose;
  FrameTimes road, wide, driver;
};

void take_times(cereal::FrameData::Reader frame, FrameTimes& out) {
  if (frame.getTimestampEof() > 0) out[frame.getFrameId()] = {frame.getTimestampSof(), frame.getTimestampEof()};
}

void take(const cereal::Event::Reader& event, const TimelineOptions& options, Timeline& out, Older& older) {
  const uint64_t time = event.getLogMonoTime();
  switch (event.which()) {
    case Kind::ROAD_ENCODE_IDX:
      out.segment = event.getRoadEncodeIdx().getSegmentNum();
      return take_index(event.getRoadEncodeIdx(), out.road);
    case Kind::WIDE_ROAD_ENCODE_IDX: return take_index(event.getWideRoadEncodeIdx(), out.wide);
    case Kind::DRIVER_ENCODE_IDX: return take_index(event.getDriverEncodeIdx(), out.driver);
    case Kind::Q_ROAD_ENCODE_IDX: return take_index(event.getQRoadEncodeIdx(), out.qroad);
    case Kind::CAR_STATE: return take_car(time, event.getCarState(), out);
    case Kind::LIVE_CALIBRATION: return take_calibration(time, event.getLiveCalibration(), out);
    case Kind::LIVE_LOCATION_KALMAN:
      take_speeds(time, event.getLiveLocationKalman(), older.pose);
      return take_location(time, event.getLiveLocationKalman(), out);
    case Kind::LIVE_POSE: return take_pose(time, event.getLivePose(), out);
    case Kind::LIVE_DELAY: return out.lateral_delay.add(time, event.getLiveDelay().getLateralDelay());
    case Kind::DRIVER_MONITORING_STATE:
      return out.right_hand_drive.add(time, event.getDriverMonitoringState().getIsRHD());
    case Kind::SELFDRIVE_STATE: return out.enabled.add(time, event.getSelfdriveState().getEnabled());
    case Kind::CONTROLS_STATE: return older.enabled.add(time, event.getControlsState().getEnabled());
    case Kind::LATERAL_PLAN_D_E_P_R_E_C_A_T_E_D: {
      const auto plan = event.getLateralPlanDEPRECATED();
      return older.lane_change.add(
          time, {static_cast<int>(plan.getLaneChangeState()), static_cast<int>(plan.getLaneChangeDirection())});
    }
    case Kind::MODEL_V2: return take_model(time, event, options, out);
    case Kind::ROAD_CAMERA_STATE: take_times(event.getRoadCameraState(), older.road); return take_device(event, out);
    case Kind::WIDE_ROAD_CAMERA_STATE: return take_times(event.getWideRoadCameraState(), older.wide);
    case Kind::DRIVER_CAMERA_STATE: return take_times(event.getDriverCameraState(), older.driver);
    case Kind::INIT_DATA:
    case Kind::DEVICE_STATE:
    case Kind::CAR_PARAMS: return take_device(event, out);
    default: return;
  }
}

// The encode index has times since 2020-11; before, they are the camera's. A frame without any is none.
void add_times(const FrameTimes& camera, std::vector<IndexedFrame>& frames) {
  for (IndexedFrame& frame : frames) {
    const auto found = camera.find(frame.frame_id);
    if (frame.timestamp_eof == 0 && found != camera.end()) {
      std::tie(frame.timestamp_sof, frame.timestamp_eof) = found->second;
    }
  }
  std::erase_if(frames, [](const IndexedFrame& frame) { return frame.timestamp_eof == 0; });
}

// Sorts by index and keeps the last entry of each.
void tidy(std::vector<IndexedFrame>& frames) {
  std::stable_sort(frames.begin(), frames.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  std::vector<IndexedFrame> out;
  for (const IndexedFrame& frame : frames) {
    if (!out.empty() && out.back().index == frame.index) out.back() = frame;
    else out.push_back(frame);
  }
  frames = std::move(out);
}

}  // namespace

Timeline read_timeline(const std::filesystem::path& log, const TimelineOptions& options) {
  LogReader reader(log);
  return read_timeline(reader, options);
}

Timeline read_timeline(LogReader& reader, const TimelineOptions& options) {
  Timeline out;
  Older older;
  while ((options.events == 0 || reader.events() < options.events) && reader.next()) {
    if (reader.known() && !read_fields([&] { take(reader.event(), options, out, older); })) ++out.unreadable;
    if (options.progress && reader.events() % 1024 == 0) options.progress(reader.done());
  }
  out.events = reader.events();
  out.damage = reader.damage();
  add_times(older.road, out.road);
  add_times(older.road, out.qroad);
  add_times(older.wide, out.wide);
  add_times(older.driver, out.driver);
  for (auto* frames : {&out.road, &out.wide, &out.driver, &out.qroad}) tidy(*frames);
  if (out.enabled.empty()) out.enabled = std::move(older.enabled);
  out.pose_of_location = out.pose.empty();
  if (out.pose_of_location) out.pose = std::move(older.pose);
  // In logs with lateralPlan, modelV2 does not yet contain lane changes.
  if (!older.lane_change.empty()) out.lane_change = std::move(older.lane_change);
  out.calibration.sort();
  out.car.sort();
  out.lane_change.sort();
  out.right_hand_drive.sort();
  out.enabled.sort();
  out.lateral_delay.sort();
  out.location.sort();
  out.pose.sort();
  std::stable_sort(out.models.begin(), out.models.end(),
                   [](const ModelRecord& a, const ModelRecord& b) { return a.frame_id < b.frame_id; });
  return out;
}

}  // namespace sparkpilot::drive

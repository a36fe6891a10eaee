#include "route/synth/log.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "route/synth/log_fill.h"

namespace sparkpilot::drive::synth {
namespace {

using Which = cereal::Event::Which;

// The rate and delay of a kind of event, and how many of its events the decimated log keeps (openpilot:
// cereal/services.py).
struct Service {
  Which which;
  int rate;            // per second
  double delay;        // seconds after its turn, or after its frame
  int decimation;      // one event in this many is in the qlog; 0: none
  bool frame = false;  // it describes a frame; if not, the moment at which it is written
};

constexpr Service kServices[] = {
    {Which::CAN, 100, 0.0005, 0},
    {Which::CAR_STATE, 100, 0.001, 10},
    {Which::CAR_OUTPUT, 100, 0.0012, 10},
    {Which::SELFDRIVE_STATE, 100, 0.0025, 10},
    {Which::CONTROLS_STATE, 100, 0.003, 10},
    {Which::CAR_CONTROL, 100, 0.0035, 10},
    {Which::ACCELEROMETER, 104, 0.0008, 104},
    {Which::GYROSCOPE, 104, 0.0009, 104},
    {Which::GPS_LOCATION_EXTERNAL, 10, 0.05, 10},
    {Which::PANDA_STATES, 10, 0.004, 1},
    {Which::DEVICE_STATE, 2, 0.02, 1},
    {Which::CLOCKS, 1, 0.03, 1},
    {Which::LIVE_CALIBRATION, 4, 0.01, 4},
    {Which::LIVE_DELAY, 4, 0.012, 5},
    {Which::LIVE_TORQUE_PARAMETERS, 4, 0.013, 1},
    {Which::ROAD_CAMERA_STATE, 20, 0.012, 20, true},
    {Which::WIDE_ROAD_CAMERA_STATE, 20, 0.0125, 20, true},
    {Which::ROAD_ENCODE_IDX, 20, 0.035, 1, true},
    {Which::WIDE_ROAD_ENCODE_IDX, 20, 0.036, 1, true},
    {Which::Q_ROAD_ENCODE_IDX, 20, 0.028, 0, true},
    {Which::DRIVER_MONITORING_STATE, 20, 0.04, 10},
    {Which::MODEL_V2, 20, 0.048, 40, true},
    {Which::CAMERA_ODOMETRY, 20, 0.0483, 5, true},
    {Which::DRIVING_MODEL_DATA, 20, 0.0486, 10, true},
    {Which::LIVE_LOCATION_KALMAN, 20, 0.05, 5},
    {Which::LIVE_POSE, 20, 0.0502, 4},
    {Which::LIVE_PARAMETERS, 20, 0.0505, 5},
    {Which::RADAR_STATE, 20, 0.051, 5, true},
};

struct Item {
  uint64_t mono;
  Which which;
  int64_t index;  // within its kind, from the world's beginning
  double time;    // the moment that it describes
  bool decimated;
};

class Segment {
 public:
  Segment(const World& world, const LogOptions& options, int segment, const LogSink& sink)
      : teller_{world, options, {}}, segment_(segment), sink_(sink) {
    first_ = int64_t{segment} * kFramesPerSegment;
    last_ = std::min(options.frames, first_ + kFramesPerSegment);
  }

  void write() {
    const double begin = static_cast<double>(first_) / kFramesPerSecond;
    emit({teller_.mono(begin), Which::INIT_DATA, 0, begin, true});
    emit({teller_.mono(begin), Which::CAR_PARAMS, 0, begin, true});
    sentinel(begin, segment_ == 0 ? cereal::Sentinel::SentinelType::START_OF_ROUTE
                                  : cereal::Sentinel::SentinelType::START_OF_SEGMENT);
    uint64_t end = 0;
    for (const Item& item : schedule()) emit(item), end = item.mono;
    const bool all = last_ >= teller_.options.frames;
    sentinel(static_cast<double>(end - kFirstMonoTime) * 1e-9,
             all ? cereal::Sentinel::SentinelType::END_OF_ROUTE : cereal::Sentinel::SentinelType::END_OF_SEGMENT);
  }

 private:
  bool wanted(Which which) const {
    const LogOptions& options = teller_.options;
    switch (which) {
      case Which::WIDE_ROAD_CAMERA_STATE:
      case Which::WIDE_ROAD_ENCODE_IDX: return options.wide;
      case Which::ROAD_ENCODE_IDX: return options.road_video;
      case Which::Q_ROAD_ENCODE_IDX: return options.qcamera;
      default: return true;
    }
  }

  std::vector<Item> schedule() const {
    std::vector<Item> items;
    const double begin = static_cast<double>(first_) / kFramesPerSecond,
                 end = static_cast<double>(last_) / kFramesPerSecond;
    for (const Service& service : kServices) {
      if (!wanted(service.which)) continue;
      // Without the full video's index the decimated log keeps the small one's: only they tell the frames' times.
      const bool only = service.which == Which::Q_ROAD_ENCODE_IDX && !teller_.options.road_video;
      const int decimation = only ? 1 : service.decimation;
      const auto from = static_cast<int64_t>(std::ceil(begin * service.rate - 1e-9));
      const auto to = static_cast<int64_t>(std::ceil(end * service.rate - 1e-9));
      for (int64_t i = from; i < to; ++i) {
        const double time = static_cast<double>(i) / service.rate;
        items.push_back({teller_.mono(time + service.delay), service.which, i,
                         service.frame ? time : time + service.delay, decimation > 0 && i % decimation == 0});
      }
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.mono < b.mono; });
    return items;
  }

  const FrameTruth& truth(int64_t frame, double time) {
    if (truth_frame_ != frame) {
      truth_ = frame_truth(teller_.world, time, teller_.vehicle.steer_delay, teller_.vehicle.accelerator_delay);
      truth_frame_ = frame;
    }
    return truth_;
  }

  void sentinel(double time, cereal::Sentinel::SentinelType type) {
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<cereal::Event>();
    event.setLogMonoTime(teller_.mono(time));
    event.initSentinel().setType(type);
    sink_(message, true);
  }

  void emit(const Item& item) {
    capnp::MallocMessageBuilder message;
    auto event = message.initRoot<cereal::Event>();
    event.setLogMonoTime(item.mono);
    event.setValid(true);
    if (!frame_event(item, event) && !car_event(item, event)) device_event(item, event);
    sink_(message, item.decimated);
  }

  // Fills an event that describes a camera's frame; false if the item is of another kind.
  bool frame_event(const Item& item, cereal::Event::Builder& event) {
    const LogContext& t = teller_;
    const int64_t frame = item.index;
    using Type = cereal::EncodeIndex::Type;
    switch (item.which) {
      case Which::ROAD_CAMERA_STATE: fill_camera_state(t, event.initRoadCameraState(), frame); return true;
      case Which::WIDE_ROAD_CAMERA_STATE: fill_camera_state(t, event.initWideRoadCameraState(), frame); return true;
      case Which::ROAD_ENCODE_IDX:
        fill_encode_index(t, event.initRoadEncodeIdx(), frame, Type::FULL_H_E_V_C);
        return true;
      case Which::WIDE_ROAD_ENCODE_IDX:
        fill_encode_index(t, event.initWideRoadEncodeIdx(), frame, Type::FULL_H_E_V_C);
        return true;
      case Which::Q_ROAD_ENCODE_IDX:
        fill_encode_index(t, event.initQRoadEncodeIdx(), frame, Type::QCAMERA_H264);
        return true;
      case Which::MODEL_V2: fill_model(t, event.initModelV2(), truth(frame, item.time), frame); return true;
      case Which::CAMERA_ODOMETRY:
        fill_odometry(t, event.initCameraOdometry(), truth(frame, item.time), frame);
        return true;
      case Which::DRIVING_MODEL_DATA:
        fill_model_data(t, event.initDrivingModelData(), truth(frame, item.time), frame);
        return true;
      case Which::RADAR_STATE: fill_radar(t, event.initRadarState(), truth(frame, item.time)); return true;
      case Which::LIVE_LOCATION_KALMAN: fill_location(t, event.initLiveLocationKalman(), item.time); return true;
      case Which::LIVE_POSE: fill_pose(t, event.initLivePose(), item.time); return true;
      case Which::LIVE_PARAMETERS: fill_parameters(t, event.initLiveParameters(), item.time); return true;
      default: return false;
    }
  }

  bool car_event(const Item& item, cereal::Event::Builder& event) {
    const LogContext& t = teller_;
    switch (item.which) {
      case Which::CAN: fill_can(t, event, item.index, item.time); return true;
      case Which::CAR_STATE: fill_car_state(t, event.initCarState(), item.time); return true;
      case Which::CAR_CONTROL: fill_car_control(t, event.initCarControl(), item.time); return true;
      case Which::CAR_OUTPUT: {
        const Pose pose = t.world.pose(item.time);
        auto output = event.initCarOutput().initActuatorsOutput();
        output.setCurvature(static_cast<float>(pose.curvature));
        output.setSteeringAngleDeg(static_cast<float>(t.vehicle.steering_angle(pose.curvature, pose.speed)));
        output.setAccel(static_cast<float>(pose.acceleration));
        return true;
      }
      case Which::CONTROLS_STATE: fill_controls_state(t, event.initControlsState(), item.time); return true;
      case Which::SELFDRIVE_STATE: {
        auto state = event.initSelfdriveState();
        state.setState(cereal::SelfdriveState::OpenpilotState::ENABLED);
        state.setEnabled(true);
        state.setActive(true);
        state.setEngageable(true);
        state.setPersonality(cereal::LongitudinalPersonality::STANDARD);
        return true;
      }
      case Which::CAR_PARAMS: fill_car_params(t, event.initCarParams()); return true;
      default: return false;
    }
  }

  void device_event(const Item& item, cereal::Event::Builder& event) {
    const LogContext& t = teller_;
    switch (item.which) {
      case Which::INIT_DATA: fill_init(t, event.initInitData(), item.time); return;
      case Which::ACCELEROMETER: fill_accelerometer(t, event.initAccelerometer(), item.time); return;
      case Which::GYROSCOPE: fill_gyroscope(t, event.initGyroscope(), item.time); return;
      case Which::GPS_LOCATION_EXTERNAL: fill_gps(t, event.initGpsLocationExternal(), item.time); return;
      case Which::PANDA_STATES: fill_panda_state(event.initPandaStates(1)[0], item.time); return;
      case Which::DEVICE_STATE: fill_device_state(t, event.initDeviceState(), item.time); return;
      case Which::LIVE_CALIBRATION: fill_calibration(t, event.initLiveCalibration()); return;
      case Which::LIVE_DELAY: {
        auto delay = event.initLiveDelay();
        delay.setLateralDelay(static_cast<float>(t.vehicle.steer_delay));
        delay.setLateralDelayEstimate(static_cast<float>(t.vehicle.steer_delay));
        delay.setStatus(cereal::LiveDelayData::Status::ESTIMATED);
        delay.setValidBlocks(10);
        return;
      }
      case Which::LIVE_TORQUE_PARAMETERS: {
        auto torque = event.initLiveTorqueParameters();
        torque.setLiveValid(false);
        torque.setLatAccelFactorFiltered(2.5F);
        torque.setFrictionCoefficientFiltered(0.1F);
        return;
      }
      case Which::DRIVER_MONITORING_STATE: {
        auto driver = event.initDriverMonitoringState();
        driver.setFaceDetected(true);
        driver.setAwarenessStatus(1);
        driver.setIsRHD(t.world.road().keep_left());
        return;
      }
      default: event.initClocks().setWallTimeNanos(1'750'000'000'000'000'000 + item.mono - kFirstMonoTime); return;
    }
  }

  LogContext teller_;
  int segment_;
  const LogSink& sink_;
  int64_t first_, last_;
  FrameTruth truth_;
  int64_t truth_frame_ = -1;
};

}  // namespace

void segment_events(const World& world, const LogOptions& options, int segment, const LogSink& sink) {
  Segment(world, options, segment, sink).write();
}

}  // namespace sparkpilot::drive::synth

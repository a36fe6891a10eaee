// The parts of a log that driving a segment needs, collected in one pass: frames by encode index, and what was known at
// which time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "route/contract/camera.h"
#include "route/log/model_record.h"

namespace sparkpilot::drive {

class LogReader;

// Values with the times (ns of the device's monotonic clock) from which they hold.
template <typename T>
class Samples {
 public:
  void add(uint64_t time, T value) { items_.emplace_back(time, std::move(value)); }
  // Logs are not exactly in the order of time; call this before at().
  void sort() {
    std::stable_sort(items_.begin(), items_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  // The latest value at `time`, or null before the first.
  const T* at(uint64_t time) const {
    const auto after = std::upper_bound(items_.begin(), items_.end(), time,
                                        [](uint64_t t, const auto& item) { return t < item.first; });
    return after == items_.begin() ? nullptr : &std::prev(after)->second;
  }
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<std::pair<uint64_t, T>> items_;
};

// One frame of a camera, from its encode index.
struct IndexedFrame {
  uint32_t frame_id = 0;
  uint32_t index = 0;  // in the segment's video file, in display order
  uint64_t timestamp_sof = 0, timestamp_eof = 0;
};

struct CarSample {
  float v_ego = 0, a_ego = 0, steering_deg = 0, yaw_rate = 0;
  bool left_blinker = false, right_blinker = false;
  bool overridden = false;  // the driver steers, accelerates or brakes
};

struct LaneChangeSample {
  int state = 0, direction = 0;
};

// liveLocationKalman: the device's position (m, WGS84) and orientation (roll, pitch, yaw of the calibrated frame).
struct LocationSample {
  Vector3 position_ecef{}, orientation_ecef{};
  Vector3 velocity_calibrated{}, angular_velocity_calibrated{};
};

// livePose, or liveLocationKalman if a log has none: only speeds, in the device's frame.
struct PoseSample {
  Vector3 velocity_device{}, angular_velocity_device{}, orientation_ned{};
};

struct Timeline {
  std::vector<IndexedFrame> road, wide, driver, qroad;  // by increasing index, each once; all have a time
  Samples<Vector3> calibration;                         // liveCalibration.rpyCalib, finite ones
  Samples<CarSample> car;
  Samples<LaneChangeSample> lane_change;
  Samples<bool> right_hand_drive, enabled;
  Samples<float> lateral_delay;
  Samples<LocationSample> location;
  Samples<PoseSample> pose;
  bool pose_of_location = false;    // the poses are liveLocationKalman's, as the log has no livePose
  std::vector<ModelRecord> models;  // recorded by openpilot or by a sparkpilot run; by frame
  std::string device_type, sensor;  // from deviceState and roadCameraState; empty if the log has none
  std::string version, car_fingerprint, dongle_id;
  std::optional<double> steer_actuator_delay, longitudinal_actuator_delay;
  std::optional<uint64_t> first_moment;  // the first carState's or, if it is earlier, roadCameraState's first frame's
  std::optional<int32_t> segment;        // its number by the road camera's encode index
  int64_t events = 0, bad_calibrations = 0, unreadable = 0;
  std::string damage;  // why the log ended early; empty if it did not
};

struct TimelineOptions {
  bool models = true;  // keep the recorded models: 20 KB each
  int64_t events = 0;  // the most events to read; 0: all
  std::function<void(double done)> progress = {};
};

// Fails (user) if the file is not a log.
Timeline read_timeline(const std::filesystem::path& log, const TimelineOptions& options = {});
Timeline read_timeline(LogReader& log, const TimelineOptions& options = {});

}  // namespace sparkpilot::drive

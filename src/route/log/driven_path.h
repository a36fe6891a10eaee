// The path that a car drove, reconstructed from its device's own estimates: where it was a few seconds after any
// moment, in the calibrated frame of that moment, which is the frame and the origin (the camera) of a model's plan.
//
// A sample belongs to the time at which it was logged: openpilot's filters (selfdrive/locationd) publish a millisecond
// or two after their last input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "route/log/quaternion.h"
#include "route/log/timeline.h"

namespace sparkpilot::drive {

// Poses further apart are not bridged, nor are impossible jumps (above 100 m/s), which come from a filter that was
// reset.
inline constexpr double kMaxPoseGap = 0.5;  // s

class DrivenPath {
 public:
  // The device at a moment; `world` is any fixed frame (ECEF, or that of the first pose).
  struct Pose {
    uint64_t time = 0;  // ns of the device's clock
    Vector3 position{};
    Quaternion world_from_calibrated;
    int piece = 0;  // poses of different pieces are unrelated
  };
  struct Point {
    Vector3 position{};     // m, x forward, y right, z down
    Vector3 orientation{};  // roll, pitch, yaw in radians
  };
  struct Motion {
    double speed = 0;     // m/s, along the path, never negative
    double yaw_rate = 0;  // rad/s, positive to the right
  };

  // Finite poses in any order; of those with the same time the last is kept.
  DrivenPath(std::vector<Pose> poses, std::string source);

  // From livePose, which satellites cannot disturb, or else from liveLocationKalman, whichever has at least two
  // samples; empty if neither has.
  static std::optional<DrivenPath> from(const Timeline& timeline);
  // liveLocationKalman: speeds and turn rates, if the log has them, integrated with trapezoids. Positions and
  // orientations follow the satellites: while that filter settles, the demo route's are a tenth slower than the car and
  // turn by 36 degrees at once; they are used only if there is nothing else. Logs of early 2021 hold the inverse of the
  // calibrated orientation: the car's motion shows which it is.
  static DrivenPath from_location(const Samples<LocationSample>& samples);
  // livePose: the same. Without a calibration, the mean direction of travel.
  static DrivenPath from_pose(const Samples<PoseSample>& samples, const Samples<Vector3>& calibration);
  // comma2k19's global_pose: one row per frame. `times`: the frames' timestamps (ns) in the order of the video, if the
  // log's differ from frame_times; rows without one are then dropped. `calibration`: roll, pitch and yaw, else the mean
  // direction of travel. Fails (user) naming the file if an array is missing, of another shape or not of floats; rows
  // with impossible numbers are left out.
  static DrivenPath from_global_pose(const std::filesystem::path& folder, std::span<const uint64_t> times = {},
                                     const std::optional<Vector3>& calibration = {});

  // Where the car is `seconds` after `time`, in the calibrated frame that it had at `time`. Empty if poses do not reach
  // that far or there is a gap between.
  std::optional<Point> ahead(uint64_t time, double seconds) const;
  // How it moves at `time`, over 0.2 s around it (less at the ends).
  std::optional<Motion> motion(uint64_t time) const;

  const std::vector<Pose>& poses() const { return poses_; }
  const std::string& source() const { return source_; }  // "liveLocationKalman", "livePose", "global_pose"

 private:
  // The pose `seconds` after the first one.
  std::optional<Pose> at(double seconds) const;
  double since_start(uint64_t time) const;

  std::vector<Pose> poses_;
  std::vector<double> seconds_;  // of poses_, after the first
  std::string source_;
};

// That of comma2k19's global_pose; the same errors as DrivenPath::from_global_pose().
std::optional<Vector3> calibration_of_global_pose(const std::filesystem::path& folder);

// Roll (0), pitch and yaw of the calibration that turns the x axis along the mean direction of these velocities (m/s,
// in the device's frame), without those below 5 m/s; empty if none is left or the mean points backwards.
std::optional<Vector3> calibration_from_motion(std::span<const Vector3> velocities_device);

}  // namespace sparkpilot::drive

// The path that a car drove, rebuilt from what its device estimated of itself: where it was a few seconds after any
// moment, in the calibrated frame of that moment, which is the frame and the origin (the camera) of a model's plan.
//
// A sample tells of the time at which it was logged: openpilot's filters (selfdrive/locationd) publish a millisecond or
// two after what they took in last.
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

// Poses further apart are not bridged, neither is a step that no car makes (above 100 m/s): a filter that was reset.
inline constexpr double kMaxPoseGap = 0.5;  // s

class DrivenPath {
 public:
  // The device at a moment; `world` is any frame that stays (ECEF, or that of the first pose).
  struct Pose {
    uint64_t time = 0;  // ns of the device's clock
    Vector3 position{};
    Quaternion world_from_calibrated;
    int piece = 0;  // poses of different pieces have nothing to do with each other
  };
  struct Point {
    Vector3 position{};     // m, x forward, y right, z down
    Vector3 orientation{};  // roll, pitch, yaw in radians
  };
  struct Motion {
    double speed = 0;     // m/s, over the way, never negative
    double yaw_rate = 0;  // rad/s, positive to the right
  };

  // Finite poses in any order, the last of those at one time kept.
  DrivenPath(std::vector<Pose> poses, std::string source);

  // From livePose, which knows nothing of satellites that could pull it aside, else from liveLocationKalman, whichever
  // has two samples or more; empty where neither has.
  static std::optional<DrivenPath> from(const Timeline& timeline);
  // liveLocationKalman: speeds and turn rates integrated with trapezoids where the log has them. Positions and
  // orientations themselves follow the satellites: while that filter settles, the demo route's are a tenth slower than
  // the car and turn by 36 degrees at once; they serve where there is nothing else. Logs of early 2021 hold the inverse
  // of the calibrated orientation: the way the car moves tells which.
  static DrivenPath from_location(const Samples<LocationSample>& samples);
  // livePose: the same. Without a calibration, the mean direction of travel.
  static DrivenPath from_pose(const Samples<PoseSample>& samples, const Samples<Vector3>& calibration);
  // comma2k19's global_pose: a row a frame. `times`: the frames' timestamps (ns) in the order of the video where the
  // log's differ from frame_times; then rows without one are dropped. `calibration`: roll, pitch and yaw, else the mean
  // direction of travel. Fails (user) naming the file where an array is missing, of another shape or not of floats;
  // rows with numbers that cannot be are left out.
  static DrivenPath from_global_pose(const std::filesystem::path& folder, std::span<const uint64_t> times = {},
                                     const std::optional<Vector3>& calibration = {});

  // Where the car is `seconds` after `time`, in the calibrated frame that it had at `time`. Empty where poses do not
  // reach that far or a gap lies between.
  std::optional<Point> ahead(uint64_t time, double seconds) const;
  // How it moves at `time`, over 0.2 s around it (less at the ends).
  std::optional<Motion> motion(uint64_t time) const;

  const std::vector<Pose>& poses() const { return poses_; }
  const std::string& source() const { return source_; }  // "liveLocationKalman", "livePose", "global_pose"

 private:
  // At `seconds` after the first pose.
  std::optional<Pose> at(double seconds) const;
  double since_start(uint64_t time) const;

  std::vector<Pose> poses_;
  std::vector<double> seconds_;  // of poses_, after the first
  std::string source_;
};

// Roll (0), pitch and yaw of the calibration that turns the x axis along the mean of these directions, speeds (m/s, in
// the device's frame), those below 5 m/s aside; empty where none is left or the mean points backwards.
std::optional<Vector3> calibration_from_motion(std::span<const Vector3> velocities_device);

}  // namespace sparkpilot::drive

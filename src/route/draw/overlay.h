// Draws what driving models see onto a camera's picture: the recorded model in one colour, ours in another.
//
// On the road: our path as a filled ribbon and the recorded one as an outline of the same width (1.8 m, fading with the
// distance), lane lines by their probability, road edges by their spread, leads with distance and speed. Beside it: the
// speed, the steering wheel's angle, turn signals, a lane change, a desire that is more likely than not, the same from
// above with lateral distances drawn larger, a legend, frame and time; of these what a small picture has room for.
// Blue against orange, filled against outlined: either tells the models apart.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "route/contract/camera.h"
#include "route/contract/image.h"
#include "route/log/model_record.h"

namespace sparkpilot::drive {

struct OverlayFrame {
  Matrix3 intrinsics{};                     // of the picture that is drawn on
  Vector3 rpy{};                            // liveCalibration.rpyCalib, radians
  double height = 1.22;                     // of the camera above the road, m: paths are drawn this far below their z
  const ModelRecord* ours = nullptr;        // either may be missing
  const ModelRecord* recorded = nullptr;    // either may be missing
  std::optional<double> v_ego = {};         // m/s
  std::optional<double> steering_deg = {};  // of the wheel, to the left above zero, as carState has it
  bool left_blinker = false, right_blinker = false;
  int lane_change_state = 0, lane_change_direction = 0;  // as openpilot's LaneChangeState and LaneChangeDirection
  std::optional<int64_t> frame_id = {};
  std::optional<double> route_time = {};  // s since the route began
  std::string alert = {};                 // one line at the bottom
};

struct OverlayOptions {
  int width = 0, height = 0;                             // of the pictures; even, at least 64
  std::string ours = "this run", recorded = "recorded";  // names in the legend; empty: none
  bool bird_eye = true;                                  // the view from above, where it fits
};

// Keeps its sheets from frame to frame: nothing large is allocated after the first. One thread uses an object at a
// time. The same frames give the same bytes where the same fonts are installed.
class Overlay {
 public:
  // Fails (user) where a size is odd, below 64 or above 8192.
  explicit Overlay(const OverlayOptions& options);
  ~Overlay();
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  // Onto `picture`, which has the options' size: fails (user) where it has not. Whatever a record holds that is not
  // finite, far away or behind the camera is left out.
  void draw(const OverlayFrame& frame, YuvImage& picture);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive

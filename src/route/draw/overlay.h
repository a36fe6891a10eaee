// Draws driving models' outputs onto a camera's picture: the recorded model in one colour, this run's in another.
//
// On the road: this run's path as a filled ribbon and the recorded one as an outline of the same width (1.8 m, fading
// with the distance), lane lines by their probability, road edges by their spread, leads with distance and speed. Next
// to it: the speed, the steering wheel's angle, turn signals, a lane change, a desire that is more likely than not, the
// same from above with lateral distances enlarged, a legend, frame and time; a small picture omits what does not fit.
// Colour (blue, orange) and style (filled, outlined) each distinguish the models.
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
  Matrix3 intrinsics{};                     // of the picture
  Vector3 rpy{};                            // liveCalibration.rpyCalib, radians
  double height = 1.22;                     // of the camera above the road, m: paths are drawn this far below their z
  const ModelRecord* ours = nullptr;        // either may be missing
  const ModelRecord* recorded = nullptr;    // either may be missing
  std::optional<double> v_ego = {};         // m/s
  std::optional<double> steering_deg = {};  // of the wheel, positive to the left, as in carState
  bool left_blinker = false, right_blinker = false;
  int lane_change_state = 0, lane_change_direction = 0;  // openpilot's LaneChangeState and LaneChangeDirection
  std::optional<int64_t> frame_id = {};
  std::optional<double> route_time = {};  // s since the route began
  std::string alert = {};                 // one line at the bottom
};

struct OverlayOptions {
  int width = 0, height = 0;                             // of the pictures; even, at least 64
  std::string ours = "this run", recorded = "recorded";  // names in the legend; empty: none
  bool bird_eye = true;                                  // the view from above, if it fits
};

// Keeps its sheets from frame to frame: nothing large is allocated after the first. One thread uses an object at a
// time. The same frames give the same bytes if the same fonts are installed.
class Overlay {
 public:
  // Fails (user) if a size is odd, below 64 or above 8192.
  explicit Overlay(const OverlayOptions& options);
  ~Overlay();
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  // Draws onto `picture`; fails (user) if it does not have the options' size. Whatever in a record is not finite, far
  // away or behind the camera is left out.
  void draw(const OverlayFrame& frame, YuvImage& picture);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkpilot::drive

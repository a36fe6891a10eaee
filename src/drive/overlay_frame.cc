#include "drive/overlay_frame.h"

namespace sparkpilot::drive {

Matrix3 canvas_intrinsics(const Camera& camera, int width, int height) {
  Matrix3 intrinsics = camera.intrinsics();
  for (size_t i = 0; i < 3; ++i) {
    intrinsics[i] *= 1.0 * width / camera.width;
    intrinsics[3 + i] *= 1.0 * height / camera.height;
  }
  return intrinsics;
}

OverlayFrame overlay_frame(const Timeline& timeline, const PreparedFrame& frame, const Matrix3& intrinsics,
                           double route_start) {
  const uint64_t time = frame.mark.timestamp_eof;
  OverlayFrame out{.intrinsics = intrinsics, .rpy = frame.rpy};
  out.frame_id = frame.mark.frame_id;
  out.route_time = static_cast<double>(time) * 1e-9 - route_start;
  if (const CarSample* car = timeline.car.at(time)) {
    out.v_ego = car->v_ego;
    out.steering_deg = car->steering_deg;
    out.left_blinker = car->left_blinker;
    out.right_blinker = car->right_blinker;
  }
  if (const LaneChangeSample* change = timeline.lane_change.at(time)) {
    out.lane_change_state = change->state;
    out.lane_change_direction = change->direction;
  }
  return out;
}

}  // namespace sparkpilot::drive

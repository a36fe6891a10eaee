#include "drive/overlay_frame.h"

#include <capnp/message.h>

#include "route/contract/model_message.h"

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

ModelRecord record_of(const ModelOutputs& outputs, const std::set<std::string>& heads) {
  capnp::MallocMessageBuilder message;
  auto event = message.initRoot<cereal::Event>();
  ModelPublisher().fill_model(event, outputs, {}, {}, {});
  ModelRecord out = read_model(event.asReader());
  if (!heads.contains("plan")) out.position = {};
  if (!heads.contains("lane_lines")) out.lane_lines.clear();
  if (!heads.contains("road_edges")) out.road_edges.clear();
  if (!heads.contains("lead")) out.leads.clear();
  return out;
}

}  // namespace sparkpilot::drive

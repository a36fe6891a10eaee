// The results for one frame of a route, from a model's run or from the recording.
#pragma once

#include <cstdint>
#include <optional>

namespace sparkpilot::drive {

inline constexpr int kHorizons = 4;
inline constexpr double kHorizonSeconds[kHorizons] = {1, 2, 4, 6};

// The plan's position at a time ahead minus the car's position then, in the car's frame at the plan's time.
struct PlanError {
  float along = 0, across = 0;  // m; across: positive to the right
  float heading_deg = 0;
  float distance() const;
};

// One frame. Values that the log does not have are absent.
struct FrameResult {
  uint32_t frame_id = 0, index = 0;
  double time = 0;                    // s of the device's clock, end of the frame
  bool valid = false, model = false;  // model: sparkpilot's ran on it, or openpilot's was recorded
  bool first = false;                 // sparkpilot's model had no earlier picture: its plan is not judged
  float vision_ms = 0, policy_ms = 0, late_ms = 0;
  float curvature = 0, acceleration = 0;
  float lane_probs[4] = {};
  float lead_prob = 0, lead_x = 0;
  float engaged_prob = 0;
  std::optional<float> v_ego = {}, driven_curvature = {}, driven_acceleration = {};
  std::optional<float> recorded_curvature = {}, recorded_acceleration = {};
  std::optional<PlanError> errors[kHorizons] = {}, recorded_errors[kHorizons] = {};
};

}  // namespace sparkpilot::drive

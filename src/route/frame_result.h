// What is known of one frame of a route once a model has run on it, or from what was recorded.
#pragma once

#include <cstdint>
#include <optional>

namespace sparkpilot::drive {

inline constexpr int kHorizons = 4;
inline constexpr double kHorizonSeconds[kHorizons] = {1, 2, 4, 6};

// Where the plan is at a time ahead, less where the car was then, in the car's frame at the plan's time.
struct PlanError {
  float along = 0, across = 0;  // m; across: positive to the right
  float heading_deg = 0;
  float distance() const;
};

// One frame. What the log does not tell is absent.
struct FrameResult {
  uint32_t frame_id = 0, index = 0;
  double time = 0;                    // s of the device's clock, end of the frame
  bool valid = false, model = false;  // model: ours ran on it, or openpilot's was recorded for it
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

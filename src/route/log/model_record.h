// A modelV2 message as plain numbers for drawing, comparing and measuring, whatever program wrote the log.
#pragma once

#include <route/log/schema/log.capnp.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace sparkpilot::drive {

// Points in the calibrated frame: x forward, y right, z down, in metres.
struct Polyline {
  std::vector<float> x = {}, y = {}, z = {}, t = {};
  std::vector<float> x_std = {}, y_std = {}, z_std = {};  // empty if the log has none
};

struct LeadRecord {
  float prob = 0, prob_time = 0;
  std::vector<float> t = {}, x = {}, y = {}, v = {}, a = {};
  std::vector<float> x_std = {}, y_std = {}, v_std = {}, a_std = {};
};

struct ActionRecord {
  float curvature = 0, acceleration = 0;
  bool should_stop = false;
};

struct ModelRecord {
  uint64_t mono_time = 0, timestamp_eof = 0;
  uint32_t frame_id = 0, frame_id_extra = 0;
  bool valid = false;
  Polyline position, velocity, acceleration, orientation, orientation_rate;  // orientation: x roll, y pitch, z yaw
  std::vector<Polyline> lane_lines = {}, road_edges = {};  // far left, left, right, far right; left, right
  std::vector<float> lane_line_probs = {}, lane_line_stds = {}, road_edge_stds = {};
  std::vector<LeadRecord> leads = {};
  std::vector<float> desire_state = {}, desire_prediction = {};
  float engaged_prob = 0;
  bool hard_brake_predicted = false;
  std::vector<float> brake_disengage = {}, gas_disengage = {}, steer_override = {}, hard_brake_3 = {},
                     hard_brake_4 = {}, hard_brake_5 = {};
  int lane_change_state = 0, lane_change_direction = 0, confidence = 0;  // confidence: 0 red, 1 yellow, 2 green
  float execution_seconds = 0;
  // From 2024 on; in older logs it is in lateralPlan and longitudinalPlan.
  std::optional<ActionRecord> action = {};
};

// driverStateV2's values for a driver on one side.
struct DriverSideRecord {
  std::vector<float> orientation = {}, orientation_std = {}, position = {}, position_std = {};
  float face = 0, left_eye = 0, right_eye = 0, left_blink = 0, right_blink = 0, sunglasses = 0, phone = 0;
};

struct DriverRecord {
  uint64_t mono_time = 0;
  uint32_t frame_id = 0;
  DriverSideRecord left, right;
  float wheel_on_right = 0;
};

// Records of either kind by the id of their frame; of several of one frame the last. It points into `records`.
template <typename Records>
std::map<uint32_t, const typename Records::value_type*> by_frame(const Records& records) {
  std::map<uint32_t, const typename Records::value_type*> out;
  for (const auto& record : records) out[record.frame_id] = &record;
  return out;
}

// `event` holds driverStateV2.
DriverRecord read_driver(const cereal::Event::Reader& event);

// `event` holds modelV2. Lists longer than 4096 are cut there. A pointer out of bounds throws kj::Exception.
ModelRecord read_model(const cereal::Event::Reader& event);

}  // namespace sparkpilot::drive

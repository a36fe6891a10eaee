// Parsed outputs as openpilot's messages: modelV2 and cameraOdometry (selfdrive/modeld/fill_model_msg.py).
#pragma once

#include <route/log/schema/log.capnp.h>

#include <array>
#include <cstdint>
#include <span>

#include "route/contract/action.h"
#include "route/contract/outputs.h"

namespace sparkpilot::drive {

// The frame that a message is about.
struct FrameMark {
  uint32_t frame_id = 0, frame_id_extra = 0;  // of the road camera and of the wide one
  uint64_t timestamp_eof = 0;                 // ns of the device's clock
  bool model_valid = true;                    // modelV2 is: the camera is calibrated and the plan finite
  bool odometry_valid = true;                 // cameraOdometry is, too: no frame was lost before it
};

struct MessageExtras {
  double execution_seconds = 0;  // of the networks
  double frame_drop_percent = 0;
  int lane_change_state = 0, lane_change_direction = 0;
  std::span<const float> raw = {};  // rawPredictions, if requested
};

// The parts of a message that depend on earlier frames: the confidence and the hard-brake warning. One object per
// route, frames in order.
class ModelPublisher {
 public:
  // Sets valid and modelV2; the caller sets logMonoTime.
  void fill_model(cereal::Event::Builder event, const ModelOutputs& outputs, const Action& action,
                  const FrameMark& mark, const MessageExtras& extras);
  void reset() { *this = {}; }
  // The confidence is computed from the last five samples, one at each 40th frame id.
  static constexpr int64_t kLooks = 5;
  static constexpr uint32_t kFramesALook = 40;

 private:
  cereal::ModelDataV2::ConfidenceClass confidence(const MetaOutputs& meta, uint32_t frame_id);
  bool hard_brake(const MetaOutputs& meta);

  std::array<float, product(kMetaTimes, kMetaTimes)> disengage_{};  // the last five samples, 2 s apart, oldest first
  std::array<float, 5> brake_5_{};
  std::array<float, 2> brake_3_{};
};

// Sets valid and cameraOdometry.
void fill_odometry(cereal::Event::Builder event, const ModelOutputs& outputs, const FrameMark& mark);

// The times at which the plan reaches the distances of lines; NaN after the first that it does not reach.
std::array<float, kPoints> line_times(const ModelOutputs& outputs);

}  // namespace sparkpilot::drive

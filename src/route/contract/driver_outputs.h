// The driver monitoring model's outputs (openpilot: selfdrive/modeld/dmonitoringmodeld.py, 2024 to 2026).
#pragma once

#include <route/log/schema/log.capnp.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "sparkpilot/onnx.h"

namespace sparkpilot::drive {

struct DriverSide {
  std::array<float, 3> orientation{}, orientation_std{};  // pitch, yaw, roll in radians, in the camera's frame
  std::array<float, 2> position{}, position_std{};        // of the face in the picture, as shares of it
  float face = 0, left_eye = 0, right_eye = 0, left_blink = 0, right_blink = 0, sunglasses = 0, phone = 0;
};

struct DriverOutputs {
  DriverSide left, right;  // as if the driver sat on that side
  float wheel_on_right = 0;
};

// Decodes a flat output by the model's slices. Fails (user) naming `model` if a head is missing, outside the output or
// of another width. Unknown heads are ignored.
DriverOutputs parse_driver(const OutputSlices& slices, std::span<const float> raw, const std::string& model);

// Sets driverStateV2; the caller sets logMonoTime.
void fill_driver_state(cereal::Event::Builder event, const DriverOutputs& outputs, uint32_t frame_id,
                       double execution_seconds, std::span<const float> raw);

}  // namespace sparkpilot::drive

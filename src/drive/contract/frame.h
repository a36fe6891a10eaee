// A camera's picture becomes what a driving model takes: warped by the calibration, sampled, packed.
//
// The result is uint8 [6, 128, 256]: Y at even rows and columns, Y at odd rows and even columns, Y at even rows and odd
// columns, Y at odd rows and columns, U, V (openpilot: selfdrive/modeld/transforms/{transform,loadyuv}.cl).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "drive/contract/camera.h"
#include "drive/contract/image.h"

namespace sparkpilot::drive {

inline constexpr int kFrameChannels = 6, kFrameHeight = 128, kFrameWidth = 256;
inline constexpr int kFrameBytes = kFrameChannels * kFrameHeight * kFrameWidth;

enum class Sampling {
  // OpenCV's fixed point, as openpilot's OpenCL kernel has it up to early 2026: coordinates rounded to 1/32 of a pixel,
  // weights of 15 bits, pixels outside repeat the edge.
  bilinear,
  // The nearest pixel, coordinates rounded to even and clamped to the edge: openpilot from mid-2026.
  nearest,
};

// Writes kFrameBytes bytes. `warp` maps a pixel of the model's 512 x 256 frame to one of `picture`; it is rounded to
// float first, as openpilot does. Any finite or infinite entries are allowed; where a coordinate is not a number it
// counts as 0. Calls may run at once; serial, and no allocation.
void prepare_frame(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::span<uint8_t> out);

// The same, written plainly: what prepare_frame is held against, bit for bit.
void prepare_frame_reference(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::span<uint8_t> out);

}  // namespace sparkpilot::drive

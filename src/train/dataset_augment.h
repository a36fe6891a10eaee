// Changes of a sample's pictures that a model should not be disturbed by.
#pragma once

#include <cstdint>
#include <span>

#include "route/contract/camera.h"
#include "route/contract/image.h"

namespace sparkpilot::train {

struct AugmentOptions {
  // Standard deviation, in degrees, of each angle by which the device's mounting is misjudged. Targets stay: they are
  // in the calibrated frame. Device calibrations are off by a few tenths of a degree.
  double warp_degrees = 0;
  double brightness = 0;  // standard deviation of the factor of luma above black, and of an offset of 64 steps of it
  uint64_t seed = 1;

  bool any() const { return warp_degrees > 0 || brightness > 0; }
};

// The change of one sample: all of its pictures get the same.
struct PictureChange {
  drive::Vector3 turn{};  // roll, pitch, yaw of the device, radians
  double gain = 1, offset = 0;
};
// The same for the same seed, epoch and sample, on every machine up to the last bit of a logarithm.
PictureChange draw_change(const AugmentOptions& options, int64_t epoch, int64_t sample);

// A prepared frame (kFrameBytes, route/contract/frame.h) as the model's 512 x 256 picture; `out` is reused.
void unpack_frame(std::span<const uint8_t> frame, drive::YuvImage& out);

// Changes a prepared frame (kFrameBytes, route/contract/frame.h) in place. `big`: of the wide input. `scratch` is
// reused.
void change_frame(const PictureChange& change, bool big, std::span<uint8_t> frame, drive::YuvImage& scratch);
// Only the brightness, of luma.
void change_luma(const PictureChange& change, std::span<uint8_t> lumas);

}  // namespace sparkpilot::train

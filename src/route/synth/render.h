// Draws what a camera of the device sees of a world.
//
// Every pixel's ray is followed to the ground, so what is painted on the road lies where frame_truth() says, through
// the calibration, to a fraction of a pixel. The pixel (u, v) is a sample at those coordinates of the camera's
// intrinsics.
#pragma once

#include <cstddef>
#include <vector>

#include "route/contract/image.h"
#include "route/synth/noise.h"
#include "route/synth/world.h"

namespace sparkpilot::drive::synth {

class Renderer {
 public:
  // `world` is kept by reference.
  explicit Renderer(const World& world);
  // `picture` takes the camera's size. Goes parallel; the same bytes for any number of threads. Calls may run at once.
  void draw(double time, const Camera& camera, YuvImage& picture) const;

 private:
  const World& world_;
  Noise fine_, rough_;
  std::vector<float> asphalt_;  // brightness across the road, from left edge to right edge
  std::vector<float> grain_;
};

}  // namespace sparkpilot::drive::synth

// Draws a camera's view of a world.
//
// Every pixel's ray is followed to the ground, so paint on the road appears where frame_truth() and the calibration
// place it, to a fraction of a pixel. The pixel (u, v) is a sample at those coordinates of the camera's intrinsics.
#pragma once

#include <cstddef>
#include <vector>

#include "route/contract/image.h"
#include "route/synth/noise.h"
#include "route/synth/view.h"
#include "route/synth/world.h"

namespace sparkpilot::drive::synth {

class Renderer {
 public:
  // `world` is kept by reference.
  explicit Renderer(const World& world);
  // `picture` is resized to the camera's size. Runs in parallel; the same bytes for any number of threads. May be
  // called concurrently.
  void draw(double time, const Camera& camera, YuvImage& picture) const;
  // What a driving model's own camera would see, kModelWidth x kModelHeight: the picture that prepare_frame() warps a
  // camera's to, sampled once instead of twice. `big`: the wide input's.
  void draw_model_frame(double time, bool big, YuvImage& picture) const;

 private:
  void draw(double time, const Pose& pose, const View& view, YuvImage& picture) const;

  const World& world_;
  RoadTable road_;
  Noise fine_, rough_;
  std::vector<float> asphalt_;  // brightness across the road, from left edge to right edge
  std::vector<float> grain_;
};

}  // namespace sparkpilot::drive::synth

// The colours of ground and sky for some neighbouring pixels of a row.
#pragma once

#include <vector>

#include "route/synth/noise.h"
#include "route/synth/scenery.h"
#include "route/synth/surface.h"
#include "route/synth/view.h"

namespace sparkpilot::drive::synth {

class Shader {
 public:
  // Everything is kept by reference. `asphalt`: brightness from the left edge to the right one.
  Shader(const World& world, const Strip& strip, const View& view, const Noise& fine, const Noise& rough,
         const std::vector<float>& asphalt);

  void ground(const GroundPixels& at, Pixels& out) const { shade_ground(surface_, at, out); }
  // Pixels u, u + 1, ... of row v.
  void sky(int u, int v, Pixels& out) const;
  Lit light(float u, float v, float range) const;

 private:
  Colour clear_sky(float slope) const;
  Colour clouded(const Colour& clear, float slope, float billow) const;
  void ridges(int u, float from, float to, Pixels& out) const;
  void find_ridges();

  const View& view_;
  const Scene& scene_;
  const Noise &fine_, &rough_;
  Surface surface_;
  float turn_cos_, turn_sin_;    // north from the level frame
  std::vector<float> ridge_[2];  // far, near: the height of the horizon's outline at every column, as a slope
};

}  // namespace sparkpilot::drive::synth

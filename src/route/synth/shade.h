// The colours of ground and sky for some neighbouring pixels of a row.
#pragma once

#include <vector>

#include "route/synth/noise.h"
#include "route/synth/scenery.h"
#include "route/synth/view.h"

namespace sparkpilot::drive::synth {

// The colours of several pixels in a row; `count` of GroundMap::kSpan are requested.
struct Pixels {
  int count = 0;
  float y[GroundMap::kSpan], u[GroundMap::kSpan], v[GroundMap::kSpan];
};

// Places on the ground under those pixels, and how far a pixel reaches there.
struct GroundPixels {
  float s[GroundMap::kSpan], d[GroundMap::kSpan];
  float reach_s = 0, reach_d = 0;
  float range = 0;
  Lit from, to;  // at the first pixel and kSpan pixels after it
};

class Shader {
 public:
  // Everything is kept by reference. `asphalt`: brightness from the left edge to the right one.
  Shader(const World& world, const Strip& strip, const View& view, const Noise& fine, const Noise& rough,
         const std::vector<float>& asphalt);

  void ground(const GroundPixels& at, Pixels& out) const;
  // Pixels u, u + 1, ... of row v.
  void sky(int u, int v, Pixels& out) const;
  Lit light(float u, float v, float range) const;

 private:
  struct Line {
    float offset;
    bool dashed;
    Colour colour;
  };
  void land(const GroundPixels& at, Pixels& out) const;
  void road(const GroundPixels& at, bool edges, Pixels& out) const;
  void paint(const GroundPixels& at, const Line& line, Pixels& out) const;
  void wet(const GroundPixels& at, Pixels& out) const;
  float dashes(float s, float reach) const;
  Colour clear_sky(float slope) const;
  Colour clouded(const Colour& clear, float slope, float billow) const;
  void ridges(int u, float from, float to, Pixels& out) const;
  void find_ridges();

  const World& world_;
  const View& view_;
  const Scene& scene_;
  const Noise &fine_, &rough_;
  const std::vector<float>& asphalt_;
  std::vector<Line> lines_;
  float left_, right_;
  double origin_;
  float turn_cos_, turn_sin_;    // north from the level frame
  std::vector<float> ridge_[2];  // far, near: the height of the horizon's outline at every column, as a slope
  float fine_shift_, coarse_shift_, grass_shift_, field_shift_, dash_shift_;
};

}  // namespace sparkpilot::drive::synth

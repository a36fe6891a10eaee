// The colours of the ground under kSpan pixels of a row.
#pragma once

#include <cstdint>
#include <vector>

#include "route/synth/noise.h"
#include "route/synth/scenery.h"
#include "route/synth/view.h"

namespace sparkpilot::drive::synth {

// The colours of kSpan pixels in a row, of which the first `count` lie in the picture.
struct Pixels {
  int count = 0;
  float y[GroundMap::kSpan], u[GroundMap::kSpan], v[GroundMap::kSpan];
};

// Places on the ground under kSpan pixels, and how far a pixel reaches there.
struct GroundPixels {
  float s[GroundMap::kSpan], d[GroundMap::kSpan];
  float reach_s = 0, reach_d = 0;
  float range = 0;
  Lit from, to;  // at the first pixel and kSpan pixels after it
};

// What the ground of a picture looks like.
struct Surface {
  struct Line {
    float offset;
    bool dashed;
    Colour colour;
  };
  const Scene* scene;
  const Noise *fine, *rough;
  const std::vector<float>* asphalt;  // brightness from the left edge to the right one, every 0.05 m
  std::vector<Line> lines;
  float left, right;  // edges of the road
  bool city;
  float fine_shift, coarse_shift, grass_shift, field_shift, dash_shift;  // from s to texels and dashes
};

// Size of a noise texel in metres, along and across the road.
inline constexpr float kFineS = 0.08F, kFineD = 0.03F, kCoarseS = 1.7F, kCoarseD = 0.4F;
inline constexpr float kGrassS = 0.07F, kGrassD = 0.05F, kFieldS = 1.3F, kFieldD = 0.9F;

// All kSpan pixels; any thread. The same bits on every processor.
void shade_ground(const Surface& surface, const GroundPixels& at, Pixels& out);

// Writes kSpan values with noise added, as bytes from 4 to 251.
void put_luma(const float* values, const float* noise, uint8_t* out);

}  // namespace sparkpilot::drive::synth

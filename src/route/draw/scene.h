// The parts of an overlay: what is drawn on the road, and the panels. Included only by overlay.cc.
#pragma once

#include <string>
#include <vector>

#include "route/draw/layer.h"
#include "route/draw/overlay.h"
#include "route/draw/projection.h"

namespace sparkpilot::drive {

inline constexpr Colour kWhite{1, 1, 1}, kInk{0.05, 0.06, 0.08}, kMuted{0.74, 0.77, 0.80};
inline constexpr Colour kOurs{0.30, 0.73, 1.0}, kRecorded{1.0, 0.66, 0.0};   // distinct for every kind of colour vision
inline constexpr Colour kEdge{1.0, 0.32, 0.44}, kLaneLine{0.85, 0.95, 1.0};  // the lane lines of this run
inline constexpr double kPathHalfWidth = 0.9, kPathFrom = 2, kPathTo = 100;  // m

// One model in a frame; `unit` is a pixel at an output of 604 rows.
struct Drawn {
  const ModelRecord& model;
  bool ours;
  double height, unit;
};

void draw_road(Layer& layer, const Projection& projection, const Drawn& drawn);
void draw_leads(Layer& layer, const Projection& projection, const Drawn& drawn);

// A present lead with plausible values, in the order of the record, without those within 3 m of an earlier one.
struct Lead {
  double x = 0, y = 0, v = 0, prob = 0;
};
std::vector<Lead> leads_of(const ModelRecord& model);
// Item `i`, limited to 0 to 1, if it exists and is finite, else `otherwise`.
double unit_at(const std::vector<float>& list, size_t i, double otherwise);

void draw_speed(Layer& layer, const OverlayFrame& frame, double unit);
void draw_bird_eye(Layer& layer, const OverlayFrame& frame, double unit);
void draw_footer(Layer& layer, const OverlayFrame& frame, const OverlayOptions& options, double unit);

}  // namespace sparkpilot::drive

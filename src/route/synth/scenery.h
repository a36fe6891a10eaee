// Cars and objects next to the road, as shapes of one picture.
#pragma once

#include "route/synth/draw_list.h"
#include "route/synth/view.h"

namespace sparkpilot::drive::synth {

// How much of an object's colour is seen at a place of the level frame, and how much haze is in front of it.
struct Lit {
  float gain = 1, haze = 0;
};
Lit light_at(const Scene& scene, float x, float y, float range);
// `colour` lit and behind haze.
Colour lit(const Scene& scene, const Colour& colour, const Lit& light);

// Adds lit shapes to a list.
struct Painter {
  const World& world;
  const Strip& strip;
  DrawList& list;
  const Scene& scene;

  Colour shade(const Colour& colour, const Lit& light, float by) const;
  // `below`: the brightness of its lower end relative to the upper one.
  void quad(const Point3& a, const Point3& b, const Point3& c, const Point3& d, const Colour& colour, const Lit& light,
            float alpha = 1, float below = 1) const;
  // A post, square to the line of sight, `from` to `to` metres above its foot.
  void upright(const Point3& foot, float width, float from, float to, const Colour& colour, const Lit& light) const;
};

void add_car(const Painter& painter, double time, int car);

// Adds everything near enough to be visible at `time`, the farthest first.
void add_scenery(const World& world, double time, const Strip& strip, const GroundMap& ground, const View& view,
                 DrawList& list);

}  // namespace sparkpilot::drive::synth

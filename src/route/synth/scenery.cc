#include "route/synth/scenery.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive::synth {

Lit light_at(const Scene& scene, float x, float y, float range) {
  const float far = range / scene.sight;
  Lit light{scene.brightness, 1 - 1 / (1 + far + 0.5F * far * far)};
  if (scene.headlights && x > 0) {
    const float aside = y / (0.28F * x + 0.8F), reach = range * (1.0F / 26);
    const float beam = 1 / (1 + aside * aside * aside * aside) / (1 + reach * reach);
    light.gain += 1.05F * (1 - scene.brightness) * beam;
  }
  return light;
}

Colour lit(const Scene& scene, const Colour& colour, const Lit& light) {
  const float chroma = std::min(1.0F, 0.35F + light.gain) * (1 - light.haze);
  return {(16 + (colour.y - 16) * light.gain) * (1 - light.haze) + scene.horizon.y * light.haze,
          128 + (colour.u - 128) * chroma + (scene.horizon.u - 128) * light.haze,
          128 + (colour.v - 128) * chroma + (scene.horizon.v - 128) * light.haze};
}

Colour Painter::shade(const Colour& colour, const Lit& light, float by) const {
  return lit(scene, {colour.y * by, colour.u, colour.v}, light);
}

void Painter::quad(const Point3& a, const Point3& b, const Point3& c, const Point3& d, const Colour& colour,
                   const Lit& light, float alpha, float below) const {
  const Point3 corners[4] = {a, b, c, d};
  list.polygon(corners, shade(colour, light, 1), shade(colour, light, below), alpha);
}

void Painter::upright(const Point3& foot, float width, float from, float to, const Colour& colour,
                      const Lit& light) const {
  const float range = std::sqrt(foot.x * foot.x + foot.y * foot.y);
  const float ax = -foot.y / range * 0.5F * width, ay = foot.x / range * 0.5F * width;
  quad({foot.x - ax, foot.y - ay, foot.z - to}, {foot.x + ax, foot.y + ay, foot.z - to},
       {foot.x + ax, foot.y + ay, foot.z - from}, {foot.x - ax, foot.y - ay, foot.z - from}, colour, light);
}

namespace {

constexpr Colour kBark{62, 122, 134}, kGlass{48, 131, 126}, kSteel{135, 129, 127};

void add_tree(const Painter& p, const Prop& prop, const Point3& foot, const Lit& light) {
  const auto height = static_cast<float>(prop.height), width = static_cast<float>(prop.width);
  const float tone = 0.7F + 0.003F * static_cast<float>(prop.dice % 100);
  const Colour leaf{p.scene.grass.y * 0.8F * tone, p.scene.grass.u - 2, p.scene.grass.v - 4};
  const Colour top = p.shade(leaf, light, 1.25F), bottom = p.shade(leaf, light, 0.6F);
  const float rough = 34 * light.gain * (1 - light.haze);
  if (prop.kind == PropKind::bush) {
    p.list.blob({foot.x, foot.y, foot.z - 0.45F * height}, 0.5F * width, 0.55F * height, top, bottom, rough, prop.dice);
    return;
  }
  p.upright(foot, 0.06F * height, 0, 0.5F * height, kBark, light);
  if (prop.kind == PropKind::conifer) {
    for (int i = 0; i < 5; ++i) {
      const float at = 0.2F + 0.17F * static_cast<float>(i), wide = 0.55F * width * (1.05F - at);
      p.list.blob({foot.x, foot.y, foot.z - at * height}, wide, 0.15F * height, top, bottom, rough,
                  prop.dice + static_cast<uint32_t>(i));
    }
    return;
  }
  const float range = std::sqrt(foot.x * foot.x + foot.y * foot.y), ax = -foot.y / range, ay = foot.x / range;
  for (uint32_t i = 0; i < 5; ++i) {
    const uint32_t dice = hash(prop.dice, i, 3);
    const float side = (static_cast<float>(dice & 255) / 255 - 0.5F) * 0.55F * width * (i == 0 ? 0.0F : 1.0F);
    const float up = (i == 0 ? 0.62F : 0.45F + 0.4F * static_cast<float>((dice >> 8) & 255) / 255) * height;
    const float size = i == 0 ? 0.5F : 0.32F;
    p.list.blob({foot.x + side * ax, foot.y + side * ay, foot.z - up}, size * width, size * 0.75F * width, top, bottom,
                rough, dice);
  }
}

void add_windows(const Painter& p, const Prop& prop, const Point3& left, const Point3& right, float height,
                 const Lit& light) {
  const bool lights = p.scene.headlights;
  const int floors = std::max(1, static_cast<int>(height / 3));
  for (int floor = 0; floor < floors; ++floor) {
    for (int i = 0; i < 4; ++i) {
      const uint32_t dice = hash(prop.dice, static_cast<uint32_t>(floor), static_cast<uint32_t>(i));
      const float a = 0.08F + 0.24F * static_cast<float>(i), b = a + 0.13F, base = 0.9F + 3 * static_cast<float>(floor);
      const auto along = [&](float t, float up) {
        return Point3{left.x + t * (right.x - left.x), left.y + t * (right.y - left.y),
                      left.z + t * (right.z - left.z) - up};
      };
      const bool bright = lights && dice % 3 == 0;
      const Lit own{bright ? 1.0F : light.gain, light.haze};
      p.quad(along(a, base + 1.4F), along(b, base + 1.4F), along(b, base), along(a, base),
             bright ? Colour{190, 105, 145} : kGlass, own);
    }
  }
}

void add_building(const Painter& p, const Prop& prop, float s, const Lit& light) {
  const float sign = prop.d > 0 ? 1 : -1, d = static_cast<float>(prop.d), height = static_cast<float>(prop.height);
  const float width = static_cast<float>(prop.width);
  static constexpr Colour kWalls[] = {
      {150, 120, 136}, {128, 118, 148}, {172, 126, 130}, {112, 130, 128}, {140, 112, 138}};
  const Colour wall = kWalls[prop.dice % 5];
  const Point3 near_in = p.strip.point(s, d), far_in = p.strip.point(s + width, d),
               near_out = p.strip.point(s, d + sign * 10);
  const float foot = std::max(std::max(near_in.z, far_in.z), near_out.z) + 0.5F, roof = near_in.z - height;
  const auto wall_quad = [&](const Point3& a, const Point3& b, float by) {
    p.quad({a.x, a.y, roof}, {b.x, b.y, roof}, {b.x, b.y, foot}, {a.x, a.y, foot}, {wall.y * by, wall.u, wall.v}, light,
           1, 0.85F);
  };
  wall_quad(near_in, near_out, 0.72F);
  wall_quad(near_in, far_in, 1);
  const float range = std::sqrt(near_in.x * near_in.x + near_in.y * near_in.y);
  if (range < 130)
    add_windows(p, prop, near_in, far_in, height, light), add_windows(p, prop, near_in, near_out, height, light);
}

void add_lamp(const Painter& p, const Prop& prop, float s, const Point3& foot, const Lit& light) {
  const auto height = static_cast<float>(prop.height);
  p.upright(foot, 0.16F, 0, height, {105, 128, 128}, light);
  const float inwards = prop.d > 0 ? -2.2F : 2.2F;
  const Point3 head = p.strip.point(s, static_cast<float>(prop.d) + inwards);
  const Point3 mast{foot.x, foot.y, foot.z - height}, tip{head.x, head.y, foot.z - height - 0.3F};
  p.quad(mast, tip, {tip.x, tip.y, tip.z + 0.14F}, {mast.x, mast.y, mast.z + 0.2F}, {105, 128, 128}, light);
  if (p.scene.headlights) {
    p.list.blob(tip, 1.3F, 1.3F, {220, 112, 142}, {220, 112, 142}, 0, 0, 0.35F);
    p.list.blob(tip, 0.35F, 0.22F, {240, 115, 138}, {240, 115, 138}, 0, 0);
  }
}

void add_sign(const Painter& p, const Prop& prop, const Point3& foot, const Lit& light) {
  p.upright(foot, 0.08F, 0, 2.4F, kSteel, light);
  const float range = std::sqrt(foot.x * foot.x + foot.y * foot.y);
  const float ax = -foot.y / range, ay = foot.x / range, half = 0.5F * static_cast<float>(prop.width),
              mid = foot.z - 2.3F;
  const bool diamond = prop.dice % 2 == 0;
  const Colour face = diamond ? Colour{175, 52, 142} : Colour{215, 128, 128};
  const float h = diamond ? 0.0F : half, w = diamond ? half * 1.2F : 0.8F * half;
  if (diamond) {
    p.quad({foot.x, foot.y, mid - w}, {foot.x + w * ax, foot.y + w * ay, mid}, {foot.x, foot.y, mid + w},
           {foot.x - w * ax, foot.y - w * ay, mid}, face, light);
  } else {
    p.quad({foot.x - w * ax, foot.y - w * ay, mid - h}, {foot.x + w * ax, foot.y + w * ay, mid - h},
           {foot.x + w * ax, foot.y + w * ay, mid + h}, {foot.x - w * ax, foot.y - w * ay, mid + h}, face, light);
  }
}

void add_rail(const Painter& p, const Prop& prop, float s, const Lit& light) {
  const auto d = static_cast<float>(prop.d), end = s + static_cast<float>(prop.width),
             top = static_cast<float>(prop.height);
  for (const float at : {s + 0.5F * static_cast<float>(prop.width), s}) {
    p.upright(p.strip.point(at, d + (d > 0 ? 0.1F : -0.1F)), 0.1F, 0, top - 0.05F, kBark, light);
  }
  // Two folds and the hollow between them.
  for (const float fold : {top, top - 0.2F}) {
    p.quad(p.strip.point(s, d, fold), p.strip.point(end, d, fold), p.strip.point(end, d, fold - 0.12F),
           p.strip.point(s, d, fold - 0.12F), {168, 129, 127}, light, 1, 0.8F);
  }
  p.quad(p.strip.point(s, d, top - 0.12F), p.strip.point(end, d, top - 0.12F), p.strip.point(end, d, top - 0.2F),
         p.strip.point(s, d, top - 0.2F), {105, 129, 127}, light);
}

void add_prop(const Painter& p, const Prop& prop) {
  const auto s = static_cast<float>(prop.s - p.strip.origin());
  const Point3 foot = p.strip.point(s, static_cast<float>(prop.d));
  const float range = std::sqrt(foot.x * foot.x + foot.y * foot.y);
  if (range < 1.5F) return;
  const Lit light = light_at(p.scene, foot.x, foot.y, range);
  switch (prop.kind) {
    case PropKind::tree:
    case PropKind::conifer:
    case PropKind::bush: add_tree(p, prop, foot, light); break;
    case PropKind::building: add_building(p, prop, s, light); break;
    case PropKind::lamp: add_lamp(p, prop, s, foot, light); break;
    case PropKind::rail: add_rail(p, prop, s, light); break;
    case PropKind::sign: add_sign(p, prop, foot, light); break;
    case PropKind::post:
      p.upright(foot, 0.13F, 0, 1.05F, {205, 128, 128}, light);
      p.upright(foot, 0.13F, 0.75F, 0.9F, {45, 128, 128}, light);
      break;
  }
}

// The first row, from the bottom of the picture, whose ground is farther away than the object standing at `foot`; below
// that row the object is hidden.
int hidden_below(const GroundMap& ground, const View& view, const Point3& foot, float range) {
  const Point3 at = view.project(foot);
  const int height = view.camera().height;
  if (at.z < 1) return height;
  const int column = clamped(static_cast<int>(at.x / at.z) / GroundMap::kSpan, 0, ground.columns() - 1);
  int row = clamped(static_cast<int>(at.y / at.z) + 2, 0, height - 1);
  if (ground.at(row, column).range > 0.9F * range) return height;
  while (row > 0 && ground.at(row, column).range < 0.93F * range) --row;
  return row;
}

}  // namespace

void add_scenery(const World& world, double time, const Strip& strip, const GroundMap& ground, const View& view,
                 DrawList& list) {
  struct Thing {
    double s;
    float d;
    int car;  // -1: a prop
    Prop prop;
  };
  std::vector<Thing> things;
  for (const Prop& prop : world.props(strip.origin() - 15, strip.origin() + 420)) {
    things.push_back({prop.s, static_cast<float>(prop.d), -1, prop});
  }
  for (int car = 0; car < world.traffic().cars(); ++car) {
    const CarMotion motion = world.traffic().car(car, time);
    const double ahead = motion.s - strip.origin();
    if (ahead > -12 && ahead < 380) things.push_back({motion.s, static_cast<float>(motion.d), car, {}});
  }
  // Sorted by distance along the road, farthest first; at the same distance, the one farther from the road's middle
  // first.
  std::stable_sort(things.begin(), things.end(), [](const Thing& a, const Thing& b) {
    return a.s != b.s ? a.s > b.s : std::fabs(a.d) > std::fabs(b.d);
  });
  const Painter painter{world, strip, list, world.scene()};
  for (const Thing& thing : things) {
    const Point3 foot = strip.point(static_cast<float>(thing.s - strip.origin()), thing.d);
    list.hide_below(hidden_below(ground, view, foot, std::sqrt(foot.x * foot.x + foot.y * foot.y)));
    if (thing.car < 0) {
      add_prop(painter, thing.prop);
    } else {
      add_car(painter, time, thing.car);
    }
  }
}

}  // namespace sparkpilot::drive::synth

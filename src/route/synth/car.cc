// A car in the picture: a body, a cabin, lights, a shadow.
#include <algorithm>
#include <cmath>

#include "route/synth/scenery.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr Colour kGlass{52, 132, 125}, kTyre{26, 128, 128}, kShadow{24, 128, 128}, kPlate{190, 128, 128};

// A car's own coordinates: metres ahead of its rear, right of its middle, above the ground.
struct Body {
  const Painter& p;
  CarLook look;
  float s, d, way;  // way: 1 in the direction of s, -1 against it
  Lit light;

  Point3 at(float ahead, float right, float up) const { return p.strip.point(s + way * ahead, d + way * right, up); }
  float length() const { return static_cast<float>(look.length); }
  float half() const { return static_cast<float>(look.width) / 2; }
  float height() const { return static_cast<float>(look.height); }
  float waist() const { return height() * (look.van ? 0.55F : 0.6F); }
  Colour paint(float by) const {
    return {static_cast<float>(look.y) * by, static_cast<float>(look.u), static_cast<float>(look.v)};
  }
};

void add_shadow(const Body& b) {
  const float out = b.half() + 0.12F;
  b.p.quad(b.at(-0.15F, -out, 0.01F), b.at(-0.15F, out, 0.01F), b.at(b.length() + 0.1F, out, 0.01F),
           b.at(b.length() + 0.1F, -out, 0.01F), kShadow, b.light, 0.7F);
}

// One side of the car: tyres, body, cabin. `right` is the sign of that side.
void add_flank(const Body& b, float right) {
  const float w = right * b.half(), length = b.length(), waist = b.waist(), in = w - right * 0.16F;
  b.p.quad(b.at(0.05F, w, waist), b.at(length, w, waist - 0.12F), b.at(length, w, 0.25F), b.at(0.05F, w, 0.25F),
           b.paint(0.82F), b.light, 1, 0.7F);
  for (const float wheel : {0.19F * length, 0.81F * length}) {
    const Point3 disc[6] = {b.at(wheel - 0.32F, w, 0.3F), b.at(wheel - 0.2F, w, 0.6F),  b.at(wheel + 0.2F, w, 0.6F),
                            b.at(wheel + 0.32F, w, 0.3F), b.at(wheel + 0.2F, w, 0.01F), b.at(wheel - 0.2F, w, 0.01F)};
    const Colour tyre = b.p.shade(kTyre, b.light, 1);
    b.p.list.polygon(disc, tyre, tyre);
  }
  const float tail = b.look.van ? 0.02F : 0.1F, nose = b.look.van ? 0.8F : 0.74F;
  const float top_tail = b.look.van ? 0.05F : 0.26F, top_nose = b.look.van ? 0.68F : 0.56F;
  b.p.quad(b.at(top_tail * length, in, b.height()), b.at(top_nose * length, in, b.height()),
           b.at(nose * length, w, waist - 0.02F), b.at(tail * length, w, waist), b.paint(0.75F), b.light);
  const float low = waist + 0.06F, high = b.height() - 0.1F, glass = w - right * 0.05F;
  b.p.quad(b.at((top_tail + 0.02F) * length, in, high), b.at((top_nose - 0.02F) * length, in, high),
           b.at((nose - 0.06F) * length, glass, low), b.at((tail + 0.06F) * length, glass, low), kGlass, b.light, 1,
           0.8F);
}

void add_lamps(const Body& b, float ahead, bool rear, bool braking) {
  const Scene& scene = b.p.scene;
  const bool on = scene.headlights || (rear && braking);
  const float w = b.half(), low = b.waist() - 0.3F, high = b.waist() - 0.1F;
  const Colour red = on ? Colour{braking ? 130.0F : 95.0F, 105, 220} : Colour{72, 115, 180},
               white{on ? 245.0F : 205.0F, 124, 130};
  Lit own = b.light;
  if (on) own.gain = 1;
  for (const float side : {-1.0F, 1.0F}) {
    b.p.quad(b.at(ahead, side * (w - 0.36F), high), b.at(ahead, side * (w - 0.03F), high),
             b.at(ahead, side * (w - 0.03F), low), b.at(ahead, side * (w - 0.36F), low), rear ? red : white, own);
    if (on && scene.headlights) {
      const float size = rear ? 0.28F : 0.75F;
      const Colour glow = rear ? Colour{90, 110, 190} : Colour{235, 124, 130};
      b.p.list.blob(b.at(ahead, side * (w - 0.2F), 0.5F * (low + high)), size, size, glow, glow, 0, 0,
                    rear ? 0.3F : 0.55F);
    }
  }
}

// The end that faces the camera: the rear of a car ahead, the front of an oncoming one.
void add_end(const Body& b, bool rear, bool braking) {
  const float w = b.half(), length = b.length(), waist = b.waist(), ahead = rear ? 0 : length;
  const float sill = rear ? 0.3F : 0.25F, top = rear ? waist : waist - 0.12F;
  for (const float side : {-1.0F, 1.0F}) {
    b.p.quad(b.at(ahead, side * (w - 0.25F), 0.5F), b.at(ahead, side * (w - 0.02F), 0.5F),
             b.at(ahead, side * (w - 0.02F), 0), b.at(ahead, side * (w - 0.25F), 0), kTyre, b.light);
  }
  const float foot = b.look.van ? (rear ? 0.02F : 0.8F) : (rear ? 0.1F : 0.74F),
              roof = b.look.van ? (rear ? 0.05F : 0.68F) : (rear ? 0.26F : 0.56F);
  b.p.quad(b.at(ahead, -w, top), b.at(ahead, w, top), b.at(foot * length, w, waist), b.at(foot * length, -w, waist),
           b.paint(1.12F),
           b.light);  // the boot lid or bonnet, seen from above
  const float in = w - 0.16F;
  b.p.quad(b.at(roof * length, -in, b.height()), b.at(roof * length, in, b.height()),
           b.at(foot * length, w - 0.03F, waist), b.at(foot * length, -w + 0.03F, waist), b.paint(1), b.light);
  b.p.quad(b.at(roof * length, -in + 0.08F, b.height() - 0.08F), b.at(roof * length, in - 0.08F, b.height() - 0.08F),
           b.at(foot * length, w - 0.14F, waist + 0.05F), b.at(foot * length, -w + 0.14F, waist + 0.05F), kGlass,
           b.light, 1, 1.5F);
  b.p.quad(b.at(ahead, -w, top), b.at(ahead, w, top), b.at(ahead, w - 0.04F, sill), b.at(ahead, -w + 0.04F, sill),
           b.paint(1), b.light, 1, 0.72F);
  b.p.quad(b.at(ahead, -w + 0.1F, sill + 0.14F), b.at(ahead, w - 0.1F, sill + 0.14F), b.at(ahead, w - 0.12F, sill),
           b.at(ahead, -w + 0.12F, sill), kTyre, b.light, 0.8F);
  const float plate = rear ? 0.6F * waist : 0.42F;
  b.p.quad(b.at(ahead, -0.26F, plate + 0.12F), b.at(ahead, 0.26F, plate + 0.12F), b.at(ahead, 0.26F, plate),
           b.at(ahead, -0.26F, plate), kPlate, b.light);
  add_lamps(b, ahead, rear, braking);
}

}  // namespace

void add_car(const Painter& painter, double time, int car) {
  const CarMotion motion = painter.world.traffic().car(car, time);
  const bool oncoming = painter.world.traffic().oncoming(car);
  const auto s = static_cast<float>(motion.s - painter.strip.origin()), d = static_cast<float>(motion.d);
  const Point3 foot = painter.strip.point(s, d);
  const float range = std::sqrt(foot.x * foot.x + foot.y * foot.y);
  const Body body{painter, painter.world.traffic().look(car), s,
                  d,       oncoming ? -1.0F : 1.0F,           light_at(painter.scene, foot.x, foot.y, range)};
  add_shadow(body);
  // The camera is at s = 0 of the strip, which decides the side and the end that it sees.
  const float aside = body.way * (static_cast<float>(painter.world.traffic().ego(time).d) - d);
  if (aside < -body.half()) add_flank(body, -1);
  if (aside > body.half()) add_flank(body, 1);
  const float nose = s + body.way * body.length();
  if (oncoming ? nose > 0.3F : s > 0.3F) add_end(body, !oncoming, motion.acceleration < -0.7);
}

}  // namespace sparkpilot::drive::synth

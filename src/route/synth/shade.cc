#include "route/synth/shade.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive::synth {
namespace {

constexpr Colour kWhite{212, 128, 128}, kYellow{178, 78, 150};

float shift(double origin, float texel) {
  const double turns = origin / (static_cast<double>(texel) * Noise::kSize);
  return static_cast<float>((turns - std::floor(turns)) * Noise::kSize);
}

float mix(float from, float to, float share) { return from + share * (to - from); }

// The sky's colours are computed every kKnot pixels, which is finer than their detail.
constexpr int kKnot = 4;

}  // namespace

Shader::Shader(const World& world, const Strip& strip, const View& view, const Noise& fine, const Noise& rough,
               const std::vector<float>& asphalt)
    : view_(view), scene_(world.scene()), fine_(fine), rough_(rough) {
  const SinCos turn = sin_cos(view.heading());
  turn_cos_ = static_cast<float>(turn.cos), turn_sin_ = static_cast<float>(turn.sin);
  const Road& road = world.road();
  const double origin = strip.origin(), periods = origin / kDashPeriod;
  surface_ = {&scene_,
              &fine,
              &rough,
              &asphalt,
              {},
              static_cast<float>(road.left_edge()),
              static_cast<float>(road.right_edge()),
              road.kind() == RoadKind::city,
              shift(origin, kFineS),
              shift(origin, kCoarseS),
              shift(origin, kGrassS),
              shift(origin, kFieldS),
              static_cast<float>((periods - std::floor(periods)) * kDashPeriod)};
  for (const LaneLine& line : road.lines()) {
    const auto offset = static_cast<float>(line.offset);
    const Colour& colour = line.yellow ? kYellow : kWhite;
    if (line.paint == Paint::twin) {
      surface_.lines.push_back({offset - static_cast<float>(kTwinGap), false, colour});
      surface_.lines.push_back({offset + static_cast<float>(kTwinGap), false, colour});
    } else if (line.paint != Paint::none) {
      surface_.lines.push_back({offset, line.paint == Paint::dashed, colour});
    }
  }
  find_ridges();
}

// The skyline: a function of direction, so it does not move with the car.
void Shader::find_ridges() {
  const int width = view_.camera().width;
  const float size = scene_.light == Light::night ? 0.6F : 1.0F;
  for (auto& ridge : ridge_) ridge.resize(static_cast<size_t>(width) + 1);
  const Point3 first = view_.ray(0, 0), below = view_.ray(0, 1);
  for (int u = 0; u <= width; ++u) {
    // The row at which this column looks horizontally.
    const Point3 top = view_.ray(static_cast<float>(u), 0);
    const float row = -top.z / (below.z - first.z);
    const Point3 ray = view_.ray(static_cast<float>(u), row);
    const double heading = view_.heading() + arctan2(ray.y, ray.x);
    const auto x = static_cast<float>((heading / (2 * kPi) + 4) * 1024);
    const float hills = rough_.at(x * 0.25F, 17, 1, 0), trees = fine_.at(x * 2, 5, 0, 0),
                woods = rough_.at(x, 90, 0, 0);
    ridge_[0][static_cast<size_t>(u)] = size * std::max(0.0F, 0.022F + 0.05F * hills);
    ridge_[1][static_cast<size_t>(u)] = std::max(0.001F, 0.007F + 0.008F * woods + 0.002F * trees);
  }
}

Lit Shader::light(float u, float v, float range) const {
  if (!scene_.headlights) return light_at(scene_, 1, 0, range);
  const Point3 ray = view_.ray(u, v);
  const float scale = range / std::sqrt(ray.x * ray.x + ray.y * ray.y);
  return light_at(scene_, ray.x * scale, ray.y * scale, range);
}

Colour Shader::clear_sky(float slope) const {
  const float high = std::max(0.0F, slope), blue = std::min(1.0F, 1.25F * high / (high + 0.3F));
  const Colour &zenith = scene_.zenith, &horizon = scene_.horizon;
  return {mix(horizon.y, zenith.y, blue), mix(horizon.u, zenith.u, blue), mix(horizon.v, zenith.v, blue)};
}

// Clouds lie in a plane.
void Shader::sky(int u, int v, Pixels& out) const {
  float slope[2], east[2], north[2];
  for (int end = 0; end < 2; ++end) {
    const Point3 ray = view_.ray(static_cast<float>(u + end * GroundMap::kSpan), static_cast<float>(v));
    const float level = 1 / std::sqrt(ray.x * ray.x + ray.y * ray.y);
    slope[end] = -ray.z * level;
    const float far = 60 / (std::max(0.0F, slope[end]) + 0.06F) * level;
    north[end] = (ray.x * turn_cos_ - ray.y * turn_sin_) * far;
    east[end] = (ray.x * turn_sin_ + ray.y * turn_cos_) * far;
  }
  const float focal = static_cast<float>(view_.camera().focal_length), up = std::max(0.0F, slope[0]) + 0.06F;
  const int level_x = Noise::level(2 * 60 / (focal * up)), level_y = Noise::level(60 / (focal * up * up));
  const int level = std::max(level_x, std::min(level_y, level_x + 2));
  Colour from = clouded(clear_sky(slope[0]), slope[0], rough_.at(north[0], east[0], level, level));
  for (int knot = 0; knot < GroundMap::kSpan; knot += kKnot) {
    const float share = static_cast<float>(knot + kKnot) * (1.0F / GroundMap::kSpan),
                e = mix(slope[0], slope[1], share);
    const float billow = rough_.at(mix(north[0], north[1], share), mix(east[0], east[1], share), level, level);
    const Colour to = clouded(clear_sky(e), e, billow);
    for (int i = 0; i < kKnot; ++i) {
      const float part = static_cast<float>(i) * (1.0F / kKnot);
      out.y[knot + i] = mix(from.y, to.y, part);
      out.u[knot + i] = mix(from.u, to.u, part), out.v[knot + i] = mix(from.v, to.v, part);
    }
    from = to;
  }
  if (std::min(slope[0], slope[1]) < 0.085F) ridges(u, slope[0], slope[1], out);
}

Colour Shader::clouded(const Colour& clear, float slope, float billow) const {
  if (slope <= 0.005F) return clear;
  const float cover = clamped(1.6F * (billow + scene_.clouds - 0.45F), 0.0F, 0.9F) * std::min(1.0F, slope * 12);
  return {mix(clear.y, scene_.cloud.y + 8 * billow, cover), mix(clear.u, scene_.cloud.u, cover),
          mix(clear.v, scene_.cloud.v, cover)};
}

void Shader::ridges(int u, float from, float to, Pixels& out) const {
  const float focal = static_cast<float>(view_.camera().focal_length);
  const Colour& horizon = scene_.horizon;
  const float far_y = mix(horizon.y, 16 + 90 * scene_.brightness, 0.45F);
  const float near_y = mix(16 + 60 * scene_.brightness, horizon.y, 0.3F);
  const float near_u = mix(horizon.u, scene_.grass.u, 0.5F), near_v = mix(horizon.v, scene_.grass.v, 0.5F);
  for (int i = 0; i < out.count; ++i) {
    const float e = mix(from, to, static_cast<float>(i) * (1.0F / GroundMap::kSpan));
    const size_t column = std::min(static_cast<size_t>(u + i), ridge_[0].size() - 1);
    const float far = clamped(0.5F + (ridge_[0][column] - e) * focal, 0.0F, 1.0F);
    const float near = clamped(0.5F + (ridge_[1][column] - e) * focal, 0.0F, 1.0F);
    out.y[i] = mix(mix(out.y[i], far_y, far), near_y, near);
    out.u[i] = mix(mix(out.u[i], horizon.u, far), near_u, near);
    out.v[i] = mix(mix(out.v[i], horizon.v, far), near_v, near);
  }
}

}  // namespace sparkpilot::drive::synth

#include "route/synth/shade.h"

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive::synth {
namespace {

// Size of a noise texel in metres, along and across the road.
constexpr float kFineS = 0.08F, kFineD = 0.03F, kCoarseS = 1.7F, kCoarseD = 0.4F;
constexpr float kGrassS = 0.07F, kGrassD = 0.05F, kFieldS = 1.3F, kFieldD = 0.9F;
constexpr Colour kWhite{212, 128, 128}, kYellow{178, 78, 150}, kConcrete{148, 126, 130};

float shift(double origin, float texel) {
  const double turns = origin / (static_cast<double>(texel) * Noise::kSize);
  return static_cast<float>((turns - std::floor(turns)) * Noise::kSize);
}

float mix(float from, float to, float share) { return from + share * (to - from); }

// Noise coarser than a pixel is sampled only every kKnot pixels.
constexpr int kKnot = 4;

// Samples `noise` at the pixels of a span, with texels of `size_s` by `size_d` metres.
void look_up(const Noise& noise, const GroundPixels& at, int count, float size_s, float size_d, float shift_s,
             float* out) {
  const int level_s = Noise::level(at.reach_s / size_s), level_d = Noise::level(at.reach_d / size_d);
  const float by_s = 1 / size_s, by_d = 1 / size_d;
  for (int i = 0; i < count; ++i) out[i] = noise.at(at.s[i] * by_s + shift_s, at.d[i] * by_d, level_s, level_d);
}

void look_up_coarse(const Noise& noise, const GroundPixels& at, int count, float size_s, float size_d, float shift_s,
                    float* out) {
  const int level_s = Noise::level(at.reach_s / size_s), level_d = Noise::level(kKnot * at.reach_d / size_d);
  const float by_s = 1 / size_s, by_d = 1 / size_d;
  const auto value = [&](int i) { return noise.at(at.s[i] * by_s + shift_s, at.d[i] * by_d, level_s, level_d); };
  float from = value(0);
  for (int knot = 0; knot < count; knot += kKnot) {
    const int next = std::min(knot + kKnot, count - 1), length = std::max(1, next - knot);
    const float to = value(next), step = (to - from) / static_cast<float>(length);
    for (int i = 0; i < kKnot && knot + i < count; ++i) out[knot + i] = from + static_cast<float>(i) * step;
    from = to;
  }
}

}  // namespace

Shader::Shader(const World& world, const Strip& strip, const View& view, const Noise& fine, const Noise& rough,
               const std::vector<float>& asphalt)
    : world_(world),
      view_(view),
      scene_(world.scene()),
      fine_(fine),
      rough_(rough),
      asphalt_(asphalt),
      left_(static_cast<float>(world.road().left_edge())),
      right_(static_cast<float>(world.road().right_edge())),
      origin_(strip.origin()) {
  for (const LaneLine& line : world.road().lines()) {
    const auto offset = static_cast<float>(line.offset);
    const Colour& colour = line.yellow ? kYellow : kWhite;
    if (line.paint == Paint::twin) {
      lines_.push_back({offset - static_cast<float>(kTwinGap), false, colour});
      lines_.push_back({offset + static_cast<float>(kTwinGap), false, colour});
    } else if (line.paint != Paint::none) {
      lines_.push_back({offset, line.paint == Paint::dashed, colour});
    }
  }
  const SinCos turn = sin_cos(view.heading());
  turn_cos_ = static_cast<float>(turn.cos), turn_sin_ = static_cast<float>(turn.sin);
  fine_shift_ = shift(origin_, kFineS), coarse_shift_ = shift(origin_, kCoarseS);
  grass_shift_ = shift(origin_, kGrassS), field_shift_ = shift(origin_, kFieldS);
  const double periods = origin_ / kDashPeriod;
  dash_shift_ = static_cast<float>((periods - std::floor(periods)) * kDashPeriod);
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

void Shader::land(const GroundPixels& at, Pixels& out) const {
  float grains[GroundMap::kSpan], fields[GroundMap::kSpan];
  look_up(fine_, at, out.count, kGrassS, kGrassD, grass_shift_, grains);
  look_up_coarse(rough_, at, out.count, kFieldS, kFieldD, field_shift_, fields);
  const bool city = world_.road().kind() == RoadKind::city;
  const Colour& side = city ? kConcrete : scene_.soil;
  for (int i = 0; i < out.count; ++i) {
    const float grain = grains[i], field = fields[i], beyond = std::max(left_ - at.d[i], at.d[i] - right_);
    // Gravel beside the road, or a pavement; then grass with bare patches.
    const float bare = clamped(0.15F + 1.4F * field, 0.0F, 0.85F);
    const float verge =
        city ? clamped((3.2F - beyond) * 8, 0.0F, 1.0F) : clamped(1.3F - beyond + 0.8F * grain, 0.0F, 1.0F);
    const float y = mix(mix(scene_.grass.y * (1 + 0.3F * field), scene_.soil.y, bare), side.y, verge);
    out.y[i] = y * (1 + (city ? mix(0.32F, 0.06F, verge) : 0.32F) * grain);
    out.u[i] = mix(mix(scene_.grass.u, scene_.soil.u, bare), side.u, verge);
    out.v[i] = mix(mix(scene_.grass.v, scene_.soil.v, bare), side.v, verge);
  }
}

void Shader::road(const GroundPixels& at, bool edges, Pixels& out) const {
  float fine[GroundMap::kSpan], coarse[GroundMap::kSpan];
  look_up(fine_, at, out.count, kFineS, kFineD, fine_shift_, fine);
  look_up_coarse(rough_, at, out.count, kCoarseS, kCoarseD, coarse_shift_, coarse);
  const float last = static_cast<float>(asphalt_.size() - 1), soft = 1 / at.reach_d;
  for (int i = 0; i < out.count; ++i) {
    const auto place = static_cast<size_t>(clamped((at.d[i] - left_) * 20, 0.0F, last));
    const float y = asphalt_[place] * (1 + 0.19F * fine[i] + 0.06F * coarse[i]);
    if (!edges) {
      out.y[i] = y, out.u[i] = scene_.asphalt.u, out.v[i] = scene_.asphalt.v;
      continue;
    }
    const float cover =
        clamped(0.5F + (at.d[i] - left_) * soft, 0.0F, 1.0F) * clamped(0.5F + (right_ - at.d[i]) * soft, 0.0F, 1.0F);
    out.y[i] = mix(out.y[i], y, cover);
    out.u[i] = mix(out.u[i], scene_.asphalt.u, cover);
    out.v[i] = mix(out.v[i], scene_.asphalt.v, cover);
  }
}

// The share of [s - reach/2, s + reach/2] that is painted.
float Shader::dashes(float s, float reach) const {
  const auto painted = [](float x) {
    const float periods = x * static_cast<float>(1 / kDashPeriod);
    const float whole = static_cast<float>(static_cast<int>(periods) - (periods < 0));
    return whole * static_cast<float>(kDashLength) +
           std::min((periods - whole) * static_cast<float>(kDashPeriod), static_cast<float>(kDashLength));
  };
  const float middle = s + dash_shift_;
  return (painted(middle + 0.5F * reach) - painted(middle - 0.5F * reach)) / reach;
}

void Shader::paint(const GroundPixels& at, const Line& line, Pixels& out) const {
  const float half = static_cast<float>(kLineHalfWidth), reach = at.reach_d, low = line.offset - half,
              high = line.offset + half;
  const int level_x = Noise::level(at.reach_s / kFineS), level_y = Noise::level(at.reach_d / kFineD);
  for (int i = 0; i < out.count; ++i) {
    const float d = at.d[i];
    const float inside = std::min(d + 0.5F * reach, high) - std::max(d - 0.5F * reach, low);
    if (inside <= 0) continue;
    float cover = inside / reach;
    if (line.dashed) cover *= dashes(at.s[i], at.reach_s);
    const float wear = fine_.at(at.s[i] * (1 / kFineS) + fine_shift_ + 40, d * (1 / kFineD), level_x, level_y);
    cover *= clamped(0.93F + 0.35F * wear, 0.5F, 1.0F);
    out.y[i] = mix(out.y[i], line.colour.y, cover);
    out.u[i] = mix(out.u[i], line.colour.u, cover);
    out.v[i] = mix(out.v[i], line.colour.v, cover);
  }
}

// Water reflects the sky, more at flatter viewing angles.
void Shader::wet(const GroundPixels& at, Pixels& out) const {
  const float mirror = 0.62F * at.range / (at.range + 16);
  for (int i = 0; i < out.count; ++i) {
    if (at.d[i] < left_ || at.d[i] > right_) continue;
    out.y[i] = mix(out.y[i], scene_.horizon.y * 0.95F, mirror);
    out.u[i] = mix(out.u[i], scene_.horizon.u, mirror), out.v[i] = mix(out.v[i], scene_.horizon.v, mirror);
  }
}

void Shader::ground(const GroundPixels& at, Pixels& out) const {
  const float low = std::min(at.d[0], at.d[out.count - 1]), high = std::max(at.d[0], at.d[out.count - 1]);
  const bool some_land = low < left_ + at.reach_d || high > right_ - at.reach_d;
  const bool some_road = high > left_ - at.reach_d && low < right_ + at.reach_d;
  if (some_land) land(at, out);
  if (some_road) {
    road(at, some_land, out);
    const float half = static_cast<float>(kLineHalfWidth) + at.reach_d;
    for (const Line& line : lines_) {
      if (line.offset > low - half && line.offset < high + half) paint(at, line, out);
    }
  }
  for (int i = 0; i < out.count; ++i) {
    const float share = static_cast<float>(i) * (1.0F / GroundMap::kSpan);
    const float gain = mix(at.from.gain, at.to.gain, share), haze = mix(at.from.haze, at.to.haze, share);
    const float chroma = std::min(1.0F, 0.35F + gain) * (1 - haze);
    out.y[i] = (16 + (out.y[i] - 16) * gain) * (1 - haze) + scene_.horizon.y * haze;
    out.u[i] = 128 + (out.u[i] - 128) * chroma + (scene_.horizon.u - 128) * haze;
    out.v[i] = 128 + (out.v[i] - 128) * chroma + (scene_.horizon.v - 128) * haze;
  }
  if (scene_.wet && some_road) wet(at, out);
}

Colour Shader::clear_sky(float slope) const {
  const float high = std::max(0.0F, slope), blue = std::min(1.0F, 1.25F * high / (high + 0.3F));
  const Colour &zenith = scene_.zenith, &horizon = scene_.horizon;
  return {mix(horizon.y, zenith.y, blue), mix(horizon.u, zenith.u, blue), mix(horizon.v, zenith.v, blue)};
}

// Clouds lie in a plane; they are sampled every kKnot pixels, which is finer than their detail.
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

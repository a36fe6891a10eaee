#include "route/synth/surface.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "route/synth/surface.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "route/synth/noise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::drive::synth::HWY_NAMESPACE {
namespace {  // names are local to this file, once per target

constexpr int kSpan = GroundMap::kSpan;
constexpr Colour kConcrete{148, 126, 130};

struct Channels {
  Floats y, u, v;
};
HWY_INLINE void store(const Channels& c, int i, Pixels& pixels) {
  const F f;
  hn::StoreU(c.y, f, pixels.y + i), hn::StoreU(c.u, f, pixels.u + i), hn::StoreU(c.v, f, pixels.v + i);
}
HWY_INLINE Channels mix_in(const Channels& under, const Colour& over, Floats share) {
  return {mix(under.y, set(over.y), share), mix(under.u, set(over.u), share), mix(under.v, set(over.v), share)};
}

// Noise with texels of `size_s` by `size_d` metres, as a pixel of the span sees it.
struct Grain {
  const Noise::Level& map;
  float by_s, by_d, shift;
  Grain(const Noise& noise, const GroundPixels& at, float size_s, float size_d, float shift_s)
      : map(noise.map(Noise::level(at.reach_s / size_s), Noise::level(at.reach_d / size_d))),
        by_s(1 / size_s),
        by_d(1 / size_d),
        shift(shift_s) {}
  HWY_INLINE Floats at(Floats s, Floats d) const {
    return noise_at(map, hn::Add(hn::Mul(s, set(by_s)), set(shift)), hn::Mul(d, set(by_d)));
  }
};

// Gravel beside the road, or a pavement; then grass with bare patches.
HWY_INLINE Channels land(const Surface& look, const Grain& grains, const Grain& fields, Floats s, Floats d) {
  const Scene& scene = *look.scene;
  const Colour& side = look.city ? kConcrete : scene.soil;
  const Floats grain = grains.at(s, d), field = fields.at(s, d), one = set(1);
  const Floats beyond = hn::Max(hn::Sub(set(look.left), d), hn::Sub(d, set(look.right)));
  const Floats bare = clip(hn::Add(set(0.15F), hn::Mul(set(1.4F), field)), 0, 0.85F);
  const Floats verge = look.city ? clip(hn::Mul(hn::Sub(set(3.2F), beyond), set(8)), 0, 1)
                                 : clip(hn::Add(hn::Sub(set(1.3F), beyond), hn::Mul(set(0.8F), grain)), 0, 1);
  const Floats grass = hn::Mul(set(scene.grass.y), hn::Add(one, hn::Mul(set(0.3F), field)));
  const Floats y = mix(mix(grass, set(scene.soil.y), bare), set(side.y), verge);
  const Floats rough = look.city ? mix(set(0.32F), set(0.06F), verge) : set(0.32F);
  return {hn::Mul(y, hn::Add(one, hn::Mul(rough, grain))),
          mix(mix(set(scene.grass.u), set(scene.soil.u), bare), set(side.u), verge),
          mix(mix(set(scene.grass.v), set(scene.soil.v), bare), set(side.v), verge)};
}

HWY_INLINE Floats asphalt(const Surface& look, const Grain& fine, const Grain& coarse, Floats s, Floats d) {
  const std::vector<float>& table = *look.asphalt;
  const float last = static_cast<float>(table.size() - 1);
  const Ints place = hn::ConvertTo(I(), clip(hn::Mul(hn::Sub(d, set(look.left)), set(20)), 0, last));
  const Floats rough =
      hn::Add(hn::Add(set(1), hn::Mul(set(0.19F), fine.at(s, d))), hn::Mul(set(0.06F), coarse.at(s, d)));
  return hn::Mul(hn::GatherIndex(F(), table.data(), place), rough);
}

// How much of a pixel at `d` lies between the edges of the road.
HWY_INLINE Floats on_road(const Surface& look, Floats d, float soft) {
  const Floats left = clip(hn::Add(set(0.5F), hn::Mul(hn::Sub(d, set(look.left)), set(soft))), 0, 1);
  return hn::Mul(left, clip(hn::Add(set(0.5F), hn::Mul(hn::Sub(set(look.right), d), set(soft))), 0, 1));
}

// The share of [s - reach/2, s + reach/2] that is painted.
HWY_INLINE Floats dashes(const Surface& look, Floats s, float reach) {
  constexpr float kPeriod = static_cast<float>(kDashPeriod), kLength = static_cast<float>(kDashLength);
  const auto painted = [&](Floats x) {
    const Floats periods = hn::Mul(x, set(1 / kPeriod)), whole = hn::Floor(periods);
    return hn::Add(hn::Mul(whole, set(kLength)), hn::Min(hn::Mul(hn::Sub(periods, whole), set(kPeriod)), set(kLength)));
  };
  const Floats middle = hn::Add(s, set(look.dash_shift)), half = set(0.5F * reach);
  return hn::Div(hn::Sub(painted(hn::Add(middle, half)), painted(hn::Sub(middle, half))), set(reach));
}

HWY_INLINE Channels paint(const Surface& look, const Surface::Line& line, const Grain& wear, const GroundPixels& at,
                          Floats s, Floats d, const Channels& under) {
  const float half = static_cast<float>(kLineHalfWidth), reach = at.reach_d;
  const Floats inside = hn::Sub(hn::Min(hn::Add(d, set(0.5F * reach)), set(line.offset + half)),
                                hn::Max(hn::Sub(d, set(0.5F * reach)), set(line.offset - half)));
  if (hn::AllTrue(F(), hn::Le(inside, set(0)))) return under;
  Floats cover = hn::Div(hn::Max(inside, set(0)), set(reach));
  if (line.dashed) cover = hn::Mul(cover, dashes(look, s, at.reach_s));
  const Floats worn = clip(hn::Add(set(0.93F), hn::Mul(set(0.35F), wear.at(s, d))), 0.5F, 1);
  return mix_in(under, line.colour, hn::Mul(cover, worn));
}

void Shade(const Surface& look, const GroundPixels& at, Pixels& out) {
  const F f;
  const Scene& scene = *look.scene;
  const float low = std::min(at.d[0], at.d[kSpan - 1]), high = std::max(at.d[0], at.d[kSpan - 1]);
  const bool some_land = low < look.left + at.reach_d || high > look.right - at.reach_d;
  const bool some_road = high > look.left - at.reach_d && low < look.right + at.reach_d;
  const Grain fine(*look.fine, at, kFineS, kFineD, look.fine_shift);
  const Grain coarse(*look.rough, at, kCoarseS, kCoarseD, look.coarse_shift);
  const Grain grains(*look.fine, at, kGrassS, kGrassD, look.grass_shift);
  const Grain fields(*look.rough, at, kFieldS, kFieldD, look.field_shift);
  const Grain wear(*look.fine, at, kFineS, kFineD, look.fine_shift + 40);
  const float soft = 1 / at.reach_d, half = static_cast<float>(kLineHalfWidth) + at.reach_d;
  for (int i = 0; i < kSpan; i += static_cast<int>(hn::Lanes(f))) {
    const Floats s = hn::LoadU(f, at.s + i), d = hn::LoadU(f, at.d + i);
    Channels c{set(0), set(scene.asphalt.u), set(scene.asphalt.v)};
    if (some_land) c = land(look, grains, fields, s, d);
    if (some_road) {
      const Floats y = asphalt(look, fine, coarse, s, d);
      if (some_land) {
        const Floats cover = on_road(look, d, soft);
        c = {mix(c.y, y, cover), mix(c.u, set(scene.asphalt.u), cover), mix(c.v, set(scene.asphalt.v), cover)};
      } else {
        c.y = y;
      }
      for (const Surface::Line& line : look.lines) {
        if (line.offset > low - half && line.offset < high + half) c = paint(look, line, wear, at, s, d, c);
      }
    }
    const Floats share = hn::Mul(hn::Iota(f, static_cast<float>(i)), set(1.0F / kSpan)), grey = set(128);
    const Floats gain = mix(set(at.from.gain), set(at.to.gain), share);
    const Floats haze = mix(set(at.from.haze), set(at.to.haze), share), clear = hn::Sub(set(1), haze);
    const Floats chroma = hn::Mul(hn::Min(set(1), hn::Add(set(0.35F), gain)), clear);
    const auto tint = [&](Floats value, float far) {
      const Floats near = hn::Mul(hn::Sub(value, grey), chroma);
      return hn::Add(hn::Add(grey, near), hn::Mul(set(far - 128), haze));
    };
    const Floats lit = hn::Add(set(16), hn::Mul(hn::Sub(c.y, set(16)), gain));
    c = {hn::Add(hn::Mul(lit, clear), hn::Mul(set(scene.horizon.y), haze)), tint(c.u, scene.horizon.u),
         tint(c.v, scene.horizon.v)};
    if (scene.wet && some_road) {
      // Water reflects the sky, more at flatter viewing angles.
      const auto wet = hn::And(hn::Ge(d, set(look.left)), hn::Le(d, set(look.right)));
      const Floats mirror = hn::IfThenElseZero(wet, set(0.62F * at.range / (at.range + 16)));
      c = mix_in(c, {scene.horizon.y * 0.95F, scene.horizon.u, scene.horizon.v}, mirror);
    }
    store(c, i, out);
  }
}

void PutLuma(const float* values, const float* noise, uint8_t* out) {
  const F f;
  const hn::Rebind<uint8_t, F> bytes;
  for (int i = 0; i < kSpan; i += static_cast<int>(hn::Lanes(f))) {
    const Floats value = clip(hn::Add(hn::LoadU(f, values + i), hn::LoadU(f, noise + i)), 4, 251);
    hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(I(), value)), bytes, out + i);
  }
}

}  // namespace
}  // namespace sparkpilot::drive::synth::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::drive::synth {

HWY_EXPORT(Shade);
HWY_EXPORT(PutLuma);

void shade_ground(const Surface& surface, const GroundPixels& at, Pixels& out) {
  HWY_DYNAMIC_DISPATCH(Shade)(surface, at, out);
}
void put_luma(const float* values, const float* noise, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PutLuma)(values, noise, out);
}

}  // namespace sparkpilot::drive::synth
#endif  // HWY_ONCE

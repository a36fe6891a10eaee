// Noise of many places at once: the bits of Noise::at().
#if defined(SPARKPILOT_SYNTH_NOISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SYNTH_NOISE_INL_H_
#undef SPARKPILOT_SYNTH_NOISE_INL_H_
#else
#define SPARKPILOT_SYNTH_NOISE_INL_H_
#endif

#include "hwy/highway.h"
#include "route/synth/noise.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::drive::synth::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::CappedTag<float, 16>;
using I = hn::RebindToSigned<F>;
using Floats = hn::Vec<F>;
using Ints = hn::Vec<I>;

HWY_INLINE Floats set(float value) { return hn::Set(F(), value); }
HWY_INLINE Floats mix(Floats from, Floats to, Floats share) { return hn::Add(from, hn::Mul(share, hn::Sub(to, from))); }
HWY_INLINE Floats clip(Floats x, float low, float high) { return hn::Min(hn::Max(x, set(low)), set(high)); }

HWY_INLINE Floats noise_at(const Noise::Level& map, Floats x, Floats y) {
  const I i;
  const F f;
  const Floats fx = hn::Mul(x, set(map.scale_x)), fy = hn::Mul(y, set(map.scale_y));
  const Floats whole_x = hn::Floor(fx), whole_y = hn::Floor(fy);
  const Floats u = hn::Sub(fx, whole_x), v = hn::Sub(fy, whole_y);
  const Ints column = hn::And(hn::ConvertTo(i, whole_x), hn::Set(i, map.mask_x));
  const Ints row = hn::And(hn::ConvertTo(i, whole_y), hn::Set(i, map.mask_y));
  const Ints at = hn::Add(hn::Mul(row, hn::Set(i, map.stride)), column);
  // The texel and its right neighbour are the lowest two bytes.
  const auto between = [&](const int8_t* texels) {
    const Ints word = hn::GatherOffset(i, reinterpret_cast<const int32_t*>(texels), at);
    const Floats left = hn::ConvertTo(f, hn::ShiftRight<24>(hn::ShiftLeft<24>(word)));
    const Floats right = hn::ConvertTo(f, hn::ShiftRight<24>(hn::ShiftLeft<16>(word)));
    return mix(left, right, u);
  };
  return hn::Mul(mix(between(map.texels), between(map.texels + map.stride), v), set(1.0F / 127));
}

}  // namespace sparkpilot::drive::synth::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

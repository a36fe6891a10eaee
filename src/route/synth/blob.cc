#include "route/synth/blob.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "route/synth/blob.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "route/synth/noise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::drive::synth::HWY_NAMESPACE {
namespace {  // names are local to this file, once per target

constexpr int kMostLanes = 16;

HWY_INLINE void mix_bytes(uint8_t* under, Floats over, Floats weight) {
  const F f;
  const I i;
  const hn::Rebind<uint8_t, F> bytes;
  const Floats was = hn::ConvertTo(f, hn::PromoteTo(i, hn::LoadU(bytes, under)));
  const Floats now = clip(hn::Add(mix(was, over, weight), set(0.5F)), 0, 255);
  hn::StoreU(hn::DemoteTo(bytes, hn::ConvertTo(i, now)), bytes, under);
}

// Whole vectors only.
HWY_INLINE void vector_at(const BlobRow& row, int i, uint8_t* samples, uint8_t* second) {
  const Floats places = hn::Iota(F(), static_cast<float>(i));
  const Floats dx = hn::Sub(hn::Add(hn::Mul(places, set(row.scale)), set(row.shift)), set(row.middle));
  const Floats u = hn::Mul(dx, set(row.by_x));
  Floats edge = hn::Sub(set(row.above), hn::Mul(u, u)), cover = edge, colour = set(row.colour);
  if (row.map) {
    const Floats grain = noise_at(*row.map, hn::Add(hn::Mul(dx, set(row.texel)), set(row.noise_x)), set(row.noise_y));
    edge = hn::Add(edge, hn::Mul(set(0.9F), grain));
    cover = hn::Add(set(0.5F), hn::Mul(edge, set(row.soft)));
    colour = hn::Add(colour, hn::Mul(set(row.rough), grain));
  }
  const Floats weight = hn::Mul(clip(cover, 0, 1), set(row.alpha));
  mix_bytes(samples, colour, weight);
  if (second) mix_bytes(second, set(row.other), weight);
}

void PaintRow(const BlobRow& row) {
  const int lanes = static_cast<int>(hn::Lanes(F()));
  int i = row.from;
  for (; i + lanes <= row.to; i += lanes) vector_at(row, i, row.samples + i, row.second ? row.second + i : nullptr);
  const int left = row.to - i;
  if (left <= 0) return;
  uint8_t samples[kMostLanes] = {}, second[kMostLanes] = {};
  std::copy_n(row.samples + i, left, samples);
  if (row.second) std::copy_n(row.second + i, left, second);
  vector_at(row, i, samples, second);
  std::copy_n(samples, left, row.samples + i);
  if (row.second) std::copy_n(second, left, row.second + i);
}

}  // namespace
}  // namespace sparkpilot::drive::synth::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::drive::synth {

HWY_EXPORT(PaintRow);

void paint_blob_row(const BlobRow& row) { HWY_DYNAMIC_DISPATCH(PaintRow)(row); }

}  // namespace sparkpilot::drive::synth
#endif  // HWY_ONCE

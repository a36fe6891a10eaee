#include "route/draw/blend.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "route/draw/blend.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// Integers throughout: colour weights are in 1/65536, alphas in 1/255. Pixels are split two channels at a time, so that
// the sums of the four pixels that share a chroma sample still fit.
HWY_BEFORE_NAMESPACE();
namespace sparkpilot::drive::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {  // names are local to this file, once per target

using D = hn::CappedTag<int32_t, 16>;
using V = hn::Vec<D>;

struct Channels {
  V ag, rb;  // alpha and green, red and blue: 16 bits each
};

HWY_INLINE Channels channels(V argb) {
  const V mask = hn::Set(D(), 0x00ff00ff);
  return {hn::And(hn::ShiftRight<8>(argb), mask), hn::And(argb, mask)};
}
HWY_INLINE V upper(V pair) { return hn::ShiftRight<16>(pair); }
HWY_INLINE V lower(V pair) { return hn::And(pair, hn::Set(D(), 0xffff)); }
HWY_INLINE V weighted(const Channels& c, int r, int g, int b) {
  const D d;
  return hn::Add(hn::Add(hn::Mul(upper(c.rb), hn::Set(d, r)), hn::Mul(lower(c.ag), hn::Set(d, g))),
                 hn::Mul(lower(c.rb), hn::Set(d, b)));
}

HWY_INLINE void blend_luma(const Channels& c, uint8_t* y) {
  const D d;
  const hn::Rebind<uint8_t, D> d8;
  const V drawn =
      hn::ShiftRight<16>(hn::Add(weighted(c, 19595, 38470, 7471), hn::Set(d, 32768)));  // 0.299, 0.587, 0.114
  const V kept = hn::Mul(hn::PromoteTo(d, hn::LoadU(d8, y)), hn::Sub(hn::Set(d, 255), upper(c.ag)));
  const V t = hn::Add(kept, hn::Set(d, 128));  // divided by 255, rounded
  hn::StoreU(hn::DemoteTo(d8, hn::Add(hn::ShiftRight<8>(hn::Add(t, hn::ShiftRight<8>(t))), drawn)), d8, y);
}

// `sums`: over the four pixels that share a chroma sample.
HWY_INLINE void blend_chroma(const Channels& sums, int r, int g, int b, uint8_t* c) {
  const D d;
  const hn::Rebind<uint8_t, D> d8;
  const V grey = hn::Set(d, 128);
  const V drawn = weighted(sums, r, g, b);
  const V left = hn::Mul(hn::Sub(hn::Set(d, 4 * 255), upper(sums.ag)), hn::Set(d, 257));  // approximately 65536 / 255
  const V kept = hn::Mul(hn::Sub(hn::PromoteTo(d, hn::LoadU(d8, c)), grey), left);
  const V rounded = hn::ShiftRight<18>(hn::Add(hn::Add(drawn, kept), hn::Set(d, 131072)));
  hn::StoreU(hn::DemoteTo(d8, hn::Add(grey, rounded)), d8, c);
}

// Sums over both rows and over neighbours: the first half of the pixels, then the second.
HWY_INLINE V fours(V first_above, V first_below, V second_above, V second_below) {
  const V first = hn::Add(first_above, first_below), second = hn::Add(second_above, second_below);
#if HWY_TARGET == HWY_SCALAR
  return hn::Add(first, second);  // one pixel per half
#else
  return hn::ConcatEven(D(), hn::Add(second, hn::Shuffle2301(second)), hn::Add(first, hn::Shuffle2301(first)));
#endif
}

// Blends whole vectors only; returns how many pixels were done.
size_t BlendRows(const uint32_t* above, const uint32_t* below, size_t count, const YuvRows& out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const auto load = [&](const uint32_t* at) { return hn::LoadU(d, reinterpret_cast<const int32_t*>(at)); };
  size_t x = 0;
  for (; x + 2 * lanes <= count; x += 2 * lanes) {
    const V a0 = load(above + x), a1 = load(above + x + lanes), b0 = load(below + x), b1 = load(below + x + lanes);
    if (hn::AllTrue(d, hn::Eq(hn::Or(hn::Or(a0, a1), hn::Or(b0, b1)), hn::Zero(d)))) continue;
    const Channels ca0 = channels(a0), ca1 = channels(a1), cb0 = channels(b0), cb1 = channels(b1);
    blend_luma(ca0, out.above + x);
    blend_luma(ca1, out.above + x + lanes);
    blend_luma(cb0, out.below + x);
    blend_luma(cb1, out.below + x + lanes);
    const Channels sums = {fours(ca0.ag, cb0.ag, ca1.ag, cb1.ag), fours(ca0.rb, cb0.rb, ca1.rb, cb1.rb)};
    blend_chroma(sums, -11059, -21709, 32768, out.u + x / 2);  // -0.168736, -0.331264, 0.5
    blend_chroma(sums, 32768, -27439, -5329, out.v + x / 2);   // 0.5, -0.418688, -0.081312
  }
  return x;
}

}  // namespace
}  // namespace sparkpilot::drive::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::drive {

HWY_EXPORT(BlendRows);

void blend_rows(const uint32_t* above, const uint32_t* below, size_t count, const YuvRows& out) {
  constexpr size_t kMax = 32;  // pixels of two vectors
  const auto blend = HWY_DYNAMIC_DISPATCH(BlendRows);
  const size_t done = blend(above, below, count, out);
  if (done == count) return;
  // The remaining pixels, copied to buffers as long as a vector.
  uint32_t pixels[2][kMax] = {};
  uint8_t luma[2][kMax] = {}, chroma[2][kMax / 2] = {};
  const size_t left = count - done;
  const auto copy = [&](bool back) {
    const auto move = [&](uint8_t* row, uint8_t* spare, size_t n) {
      back ? std::copy_n(spare, n, row) : std::copy_n(row, n, spare);
    };
    move(out.above + done, luma[0], left);
    move(out.below + done, luma[1], left);
    move(out.u + done / 2, chroma[0], left / 2);
    move(out.v + done / 2, chroma[1], left / 2);
  };
  std::copy_n(above + done, left, pixels[0]);
  std::copy_n(below + done, left, pixels[1]);
  copy(false);
  blend(pixels[0], pixels[1], kMax, {luma[0], luma[1], chroma[0], chroma[1]});
  copy(true);
}

}  // namespace sparkpilot::drive
#endif  // HWY_ONCE

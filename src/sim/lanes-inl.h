// Lanes: a vector of float worlds as a number type (sim/number-inl.h). Include it behind hwy/highway.h, in a file that
// HWY_TARGET_INCLUDE names, before the steps.
#if defined(SPARKPILOT_SIM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_LANES_INL_H_
#undef SPARKPILOT_SIM_LANES_INL_H_
#else
#define SPARKPILOT_SIM_LANES_INL_H_
#endif

#include "hwy/highway.h"
#include "sim/number-inl.h"

SIM_BEGIN
namespace hn = hwy::HWY_NAMESPACE;

using LaneTag = hn::ScalableTag<float>;
using WordTag = hn::RebindToUnsigned<LaneTag>;
using IndexTag = hn::RebindToSigned<LaneTag>;

struct LaneMask {
  hn::Mask<LaneTag> m;
};
struct LaneWords {
  hn::Vec<WordTag> w;
  LaneWords() = default;
  SIM_FN explicit LaneWords(hn::Vec<WordTag> words) : w(words) {}
  SIM_FN explicit LaneWords(uint32_t word) : w(hn::Set(WordTag(), word)) {}
};
struct Lanes {
  hn::Vec<LaneTag> v;
  Lanes() = default;
  SIM_FN explicit Lanes(hn::Vec<LaneTag> vector) : v(vector) {}
  SIM_FN explicit Lanes(double x) : v(hn::Set(LaneTag(), static_cast<float>(x))) {}
};
inline constexpr int kLanes = sizeof(Lanes) / sizeof(float);

template <>
struct NumberTraits<Lanes> {
  using Mask = LaneMask;
  using Words = LaneWords;
};

SIM_FN Lanes operator+(Lanes a, Lanes b) { return Lanes(hn::Add(a.v, b.v)); }
SIM_FN Lanes operator-(Lanes a, Lanes b) { return Lanes(hn::Sub(a.v, b.v)); }
SIM_FN Lanes operator*(Lanes a, Lanes b) { return Lanes(hn::Mul(a.v, b.v)); }
SIM_FN Lanes operator/(Lanes a, Lanes b) { return Lanes(hn::Div(a.v, b.v)); }
SIM_FN Lanes operator-(Lanes a) { return Lanes(hn::Neg(a.v)); }
SIM_FN LaneMask operator<(Lanes a, Lanes b) { return {hn::Lt(a.v, b.v)}; }
SIM_FN LaneMask operator>(Lanes a, Lanes b) { return {hn::Gt(a.v, b.v)}; }
SIM_FN LaneMask operator<=(Lanes a, Lanes b) { return {hn::Le(a.v, b.v)}; }
SIM_FN LaneMask operator>=(Lanes a, Lanes b) { return {hn::Ge(a.v, b.v)}; }
SIM_FN LaneMask operator==(Lanes a, Lanes b) { return {hn::Eq(a.v, b.v)}; }
// Both sides are computed.
SIM_FN LaneMask operator&&(LaneMask a, LaneMask b) { return {hn::And(a.m, b.m)}; }
SIM_FN LaneMask operator||(LaneMask a, LaneMask b) { return {hn::Or(a.m, b.m)}; }
SIM_FN LaneMask operator!(LaneMask a) { return {hn::Not(a.m)}; }

SIM_FN Lanes mul_add(Lanes a, Lanes b, Lanes c) { return Lanes(hn::MulAdd(a.v, b.v, c.v)); }
SIM_FN Lanes neg_mul_add(Lanes a, Lanes b, Lanes c) { return Lanes(hn::NegMulAdd(a.v, b.v, c.v)); }
SIM_FN Lanes select(LaneMask mask, Lanes yes, Lanes no) { return Lanes(hn::IfThenElse(mask.m, yes.v, no.v)); }
SIM_FN Lanes min(Lanes a, Lanes b) { return Lanes(hn::Min(a.v, b.v)); }
SIM_FN Lanes max(Lanes a, Lanes b) { return Lanes(hn::Max(a.v, b.v)); }
SIM_FN Lanes abs(Lanes x) { return Lanes(hn::Abs(x.v)); }
SIM_FN Lanes sqrt(Lanes x) { return Lanes(hn::Sqrt(x.v)); }
SIM_FN Lanes round(Lanes x) { return (x + Lanes(0x1.8p23)) - Lanes(0x1.8p23); }
SIM_FN Lanes power_of_two(Lanes n) {
  const auto exponent = hn::Add(hn::ConvertTo(IndexTag(), n.v), hn::Set(IndexTag(), 127));
  return Lanes(hn::BitCast(LaneTag(), hn::ShiftLeft<23>(exponent)));
}
SIM_FN void split_exponent(Lanes x, Lanes& m, Lanes& e) {
  const IndexTag di;
  const auto bits = hn::BitCast(di, x.v);
  const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  m = Lanes(hn::BitCast(LaneTag(), hn::Sub(bits, hn::ShiftLeft<23>(exponent))));
  e = Lanes(hn::ConvertTo(LaneTag(), exponent));
}

SIM_FN LaneWords operator^(LaneWords a, LaneWords b) { return LaneWords(hn::Xor(a.w, b.w)); }
SIM_FN LaneWords to_words(Lanes x) { return LaneWords(hn::BitCast(WordTag(), hn::ConvertTo(IndexTag(), x.v))); }
SIM_FN void multiply_words(LaneWords a, uint32_t b, LaneWords& high, LaneWords& low) {
#if HWY_TARGET == HWY_SCALAR
  multiply_words(a.w.raw, b, high.w.raw, low.w.raw);
#else
  const hn::RepartitionToWide<WordTag> wide;
  const auto factor = hn::Set(WordTag(), b);
  const auto even = hn::MulEven(a.w, factor);
  const auto odd = hn::MulEven(hn::BitCast(WordTag(), hn::ShiftRight<32>(hn::BitCast(wide, a.w))), factor);
  const auto upper = hn::Set(wide, 0xffffffff00000000u);
  high = LaneWords(hn::BitCast(WordTag(), hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper))));
  low = LaneWords(hn::BitCast(WordTag(), hn::Or(hn::AndNot(upper, even), hn::ShiftLeft<32>(odd))));
#endif
}
template <class N>
SIM_FN N uniform_of(LaneWords word) {
  const auto whole = hn::ConvertTo(LaneTag(), hn::BitCast(IndexTag(), hn::ShiftRight<9>(word.w)));
  return mul_add(Lanes(whole), Lanes(0x1p-23), Lanes(0x1p-24));
}

SIM_FN bool any(LaneMask mask) { return !hn::AllFalse(LaneTag(), mask.m); }

// Where all worlds look back as far, which is so in most scenarios, one load does it.
SIM_FN Lanes look_back(const Lanes* slots, int stride, int head, int length, Lanes back) {
  const LaneTag d;
  const IndexTag di;
  const int first = static_cast<int>(hn::GetLane(back.v));
  if (hn::AllTrue(d, hn::Eq(back.v, hn::Set(d, static_cast<float>(first))))) {
    const int slot = head - first;
    return slots[(slot < 0 ? slot + length : slot) * stride];
  }
  auto slot = hn::Sub(hn::Set(di, head), hn::ConvertTo(di, back.v));
  slot = hn::Add(slot, hn::IfThenElseZero(hn::Lt(slot, hn::Zero(di)), hn::Set(di, length)));
  const auto index = hn::Add(hn::Mul(slot, hn::Set(di, stride * kLanes)), hn::Iota(di, 0));
  return Lanes(hn::GatherIndex(d, reinterpret_cast<const float*>(slots), index));
}

SIM_END
#endif

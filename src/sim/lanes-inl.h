// Lanes: vectors of float worlds as a number type (sim/number-inl.h). Include it behind hwy/highway.h, in a file that
// HWY_TARGET_INCLUDE names, before the steps.
#if defined(SPARKPILOT_SIM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_LANES_INL_H_
#undef SPARKPILOT_SIM_LANES_INL_H_
#else
#define SPARKPILOT_SIM_LANES_INL_H_
#endif

#include "hwy/highway.h"
#include "sim/number-inl.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using LaneTag = hn::ScalableTag<float>;
using WordTag = hn::RebindToUnsigned<LaneTag>;
using IndexTag = hn::RebindToSigned<LaneTag>;

// Vectors in a number. A world's step is a long chain of dependent operations; that of a second vector fills the gaps
// (measured on AVX-512: 1.2 times the speed of one).
inline constexpr int kParts = 2;

struct LaneMask {
  hn::Mask<LaneTag> m[kParts];
#if HWY_ARCH_ARM
  // Masks have constructors there, which an implicit one, made at the file's end, would call for another target.
  LaneMask() {}  // NOLINT(modernize-use-equals-default)
#endif
};
struct LaneWords {
  hn::Vec<WordTag> w[kParts];
  LaneWords() = default;
  SIM_FN explicit LaneWords(uint32_t word) {
    for (auto& part : w) part = hn::Set(WordTag(), word);
  }
};
struct Lanes {
  hn::Vec<LaneTag> v[kParts];
  Lanes() = default;
  SIM_FN explicit Lanes(double x) {
    for (auto& part : v) part = hn::Set(LaneTag(), static_cast<float>(x));
  }
};
inline constexpr int kLanes = sizeof(Lanes) / sizeof(float);

template <>
struct NumberTraits<Lanes> {
  using Mask = LaneMask;
  using Words = LaneWords;
};

// The body of a function whose result `r` is computed part by part.
// NOLINTBEGIN(bugprone-macro-parentheses): parentheses would make a type or a statement of neither
#define SIM_PARTWISE(Result, statement)       \
  Result r;                                   \
  for (int i = 0; i < kParts; ++i) statement; \
  return r
// NOLINTEND(bugprone-macro-parentheses)

SIM_FN Lanes operator+(Lanes a, Lanes b) { SIM_PARTWISE(Lanes, r.v[i] = hn::Add(a.v[i], b.v[i])); }
SIM_FN Lanes operator-(Lanes a, Lanes b) { SIM_PARTWISE(Lanes, r.v[i] = hn::Sub(a.v[i], b.v[i])); }
SIM_FN Lanes operator*(Lanes a, Lanes b) { SIM_PARTWISE(Lanes, r.v[i] = hn::Mul(a.v[i], b.v[i])); }
SIM_FN Lanes operator/(Lanes a, Lanes b) { SIM_PARTWISE(Lanes, r.v[i] = hn::Div(a.v[i], b.v[i])); }
SIM_FN Lanes operator-(Lanes a) { SIM_PARTWISE(Lanes, r.v[i] = hn::Neg(a.v[i])); }
SIM_FN LaneMask operator<(Lanes a, Lanes b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Lt(a.v[i], b.v[i])); }
SIM_FN LaneMask operator>(Lanes a, Lanes b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Gt(a.v[i], b.v[i])); }
SIM_FN LaneMask operator<=(Lanes a, Lanes b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Le(a.v[i], b.v[i])); }
SIM_FN LaneMask operator>=(Lanes a, Lanes b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Ge(a.v[i], b.v[i])); }
SIM_FN LaneMask operator==(Lanes a, Lanes b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Eq(a.v[i], b.v[i])); }

// Both sides are computed.
SIM_FN LaneMask operator&&(LaneMask a, LaneMask b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::And(a.m[i], b.m[i])); }
SIM_FN LaneMask operator||(LaneMask a, LaneMask b) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Or(a.m[i], b.m[i])); }
SIM_FN LaneMask operator!(LaneMask a) { SIM_PARTWISE(LaneMask, r.m[i] = hn::Not(a.m[i])); }

SIM_FN Lanes mul_add(Lanes a, Lanes b, Lanes c) { SIM_PARTWISE(Lanes, r.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i])); }
SIM_FN Lanes neg_mul_add(Lanes a, Lanes b, Lanes c) {
  SIM_PARTWISE(Lanes, r.v[i] = hn::NegMulAdd(a.v[i], b.v[i], c.v[i]));
}
SIM_FN Lanes select(LaneMask mask, Lanes yes, Lanes no) {
  SIM_PARTWISE(Lanes, r.v[i] = hn::IfThenElse(mask.m[i], yes.v[i], no.v[i]));
}
SIM_FN Lanes min(Lanes a, Lanes b) { SIM_PARTWISE(Lanes, r.v[i] = hn::Min(a.v[i], b.v[i])); }
SIM_FN Lanes max(Lanes a, Lanes b) { SIM_PARTWISE(Lanes, r.v[i] = hn::Max(a.v[i], b.v[i])); }
SIM_FN Lanes abs(Lanes x) { SIM_PARTWISE(Lanes, r.v[i] = hn::Abs(x.v[i])); }
SIM_FN Lanes sqrt(Lanes x) { SIM_PARTWISE(Lanes, r.v[i] = hn::Sqrt(x.v[i])); }
SIM_FN Lanes round(Lanes x) { return (x + Lanes(0x1.8p23)) - Lanes(0x1.8p23); }

SIM_FN hn::Vec<LaneTag> power_of_two(hn::Vec<LaneTag> n) {
  const auto exponent = hn::Add(hn::ConvertTo(IndexTag(), n), hn::Set(IndexTag(), 127));
  return hn::BitCast(LaneTag(), hn::ShiftLeft<23>(exponent));
}
SIM_FN Lanes power_of_two(Lanes n) { SIM_PARTWISE(Lanes, r.v[i] = power_of_two(n.v[i])); }
SIM_FN void split_exponent(Lanes x, Lanes& m, Lanes& e) {
  const IndexTag di;
  for (int i = 0; i < kParts; ++i) {
    const auto bits = hn::BitCast(di, x.v[i]);
    const auto exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
    m.v[i] = hn::BitCast(LaneTag(), hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
    e.v[i] = hn::ConvertTo(LaneTag(), exponent);
  }
}

SIM_FN bool any(LaneMask mask) {
  bool found = false;
  for (const auto part : mask.m) found = found || !hn::AllFalse(LaneTag(), part);
  return found;
}

SIM_FN LaneWords operator^(LaneWords a, LaneWords b) { SIM_PARTWISE(LaneWords, r.w[i] = hn::Xor(a.w[i], b.w[i])); }
SIM_FN LaneWords to_words(Lanes x) {
  SIM_PARTWISE(LaneWords, r.w[i] = hn::BitCast(WordTag(), hn::ConvertTo(IndexTag(), x.v[i])));
}
SIM_FN void multiply_words(LaneWords a, uint32_t b, LaneWords& high, LaneWords& low) {
  for (int i = 0; i < kParts; ++i) {
#if HWY_TARGET == HWY_SCALAR
    multiply_words(a.w[i].raw, b, high.w[i].raw, low.w[i].raw);
#else
    const hn::RepartitionToWide<WordTag> wide;
    const auto factor = hn::Set(WordTag(), b);
    const auto even = hn::MulEven(a.w[i], factor);
    const auto odd = hn::MulEven(hn::BitCast(WordTag(), hn::ShiftRight<32>(hn::BitCast(wide, a.w[i]))), factor);
    const auto upper = hn::Set(wide, 0xffffffff00000000u);
    high.w[i] = hn::BitCast(WordTag(), hn::Or(hn::ShiftRight<32>(even), hn::And(odd, upper)));
    low.w[i] = hn::BitCast(WordTag(), hn::Or(hn::AndNot(upper, even), hn::ShiftLeft<32>(odd)));
#endif
  }
}
template <class N>
SIM_FN N uniform_of(LaneWords word) {
  Lanes whole;
  for (int i = 0; i < kParts; ++i) {
    whole.v[i] = hn::ConvertTo(LaneTag(), hn::BitCast(IndexTag(), hn::ShiftRight<9>(word.w[i])));
  }
  return mul_add(whole, Lanes(0x1p-23), Lanes(0x1p-24));
}

// Where all worlds look back as far, which is so in most scenarios, loads do it.
SIM_FN Lanes look_back(const Lanes* slots, int stride, int head, int length, Lanes back) {
  const LaneTag d;
  const IndexTag di;
  const int first = static_cast<int>(hn::GetLane(back.v[0]));
  const auto same = hn::Set(d, static_cast<float>(first));
  bool all = true;
  for (const auto& part : back.v) all &= hn::AllTrue(d, hn::Eq(part, same));
  if (all) {
    const int slot = head - first;
    return slots[(slot < 0 ? slot + length : slot) * stride];
  }
  Lanes r;
  for (int i = 0; i < kParts; ++i) {
    auto slot = hn::Sub(hn::Set(di, head), hn::ConvertTo(di, back.v[i]));
    slot = hn::Add(slot, hn::IfThenElseZero(hn::Lt(slot, hn::Zero(di)), hn::Set(di, length)));
    const auto index = hn::Add(hn::Mul(slot, hn::Set(di, stride * kLanes)), hn::Iota(di, i * kLanes / kParts));
    r.v[i] = hn::GatherIndex(d, reinterpret_cast<const float*>(slots), index);
  }
  return r;
}
#undef SIM_PARTWISE

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif

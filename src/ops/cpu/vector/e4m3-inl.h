// Vectors of numbers in E4M3 (tensor/small_floats.h). Include it inside a foreach_target file.
#if defined(SPARKPILOT_E4M3_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_E4M3_INL_H_
#undef SPARKPILOT_E4M3_INL_H_
#else
#define SPARKPILOT_E4M3_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A 256th of the numbers: f16 has the same mantissa and a bias larger by 8, and its subnormal numbers cost nothing to
// convert. Codes of NaN become numbers.
template <class D>
HWY_INLINE hn::Vec<D> load_e4m3(D d, const uint8_t* codes) {
  const hn::Rebind<int8_t, D> d8;
  const hn::Rebind<int16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  // The sign's copy in bit 14 is cleared.
  const auto wide = hn::ShiftLeft<7>(hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes))));
  return hn::PromoteTo(d, hn::BitCast(half, hn::And(wide, hn::Set(d16, static_cast<int16_t>(0xbfff)))));
}

// float_to_e4m3() of each number, one byte each.
template <class D>
HWY_INLINE void store_e4m3(D d, hn::Vec<D> v, uint8_t* codes) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const auto all = hn::BitCast(du, v);
  const auto magnitude = hn::And(all, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::And(hn::ShiftRight<24>(all), hn::Set(du, 0x80u));
  const auto odd = hn::And(hn::ShiftRight<20>(magnitude), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(du, 0x7ffffu)), odd);
  const auto normal = hn::BitCast(di, hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(du, 960u)));
  const auto shifted = hn::Add(hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 512.0f)), hn::Set(d, 8388608.0f));
  const auto subnormal = hn::BitCast(di, hn::And(hn::BitCast(du, shifted), hn::Set(du, 0xffu)));
  const auto size = hn::BitCast(di, magnitude);
  auto code = hn::IfThenElse(hn::Lt(size, hn::Set(di, 0x3c800000)), subnormal, normal);
  code = hn::Min(code, hn::Set(di, 0x7e));
  code = hn::IfThenElse(hn::Gt(size, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7f), code);
  hn::StoreU(hn::DemoteTo(d8, hn::Or(code, hn::BitCast(di, sign))), d8, codes);
}

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_E4M3_INL_H_

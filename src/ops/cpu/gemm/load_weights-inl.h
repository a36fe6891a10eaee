// Vectors of weights stored as f32, f16 or bf16, widened to f32. Include it inside a foreach_target file.
#if defined(SPARKPILOT_LOAD_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_LOAD_WEIGHTS_INL_H_
#undef SPARKPILOT_LOAD_WEIGHTS_INL_H_
#else
#define SPARKPILOT_LOAD_WEIGHTS_INL_H_
#endif

#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> load_weights(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_weights(D d, const Half* p) {
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
}
template <class D>
HWY_INLINE hn::Vec<D> load_weights(D d, const BFloat16* p) {
  const hn::Rebind<uint16_t, D> ds;
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(ds, reinterpret_cast<const uint16_t*>(p)))));
}

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_LOAD_WEIGHTS_INL_H_

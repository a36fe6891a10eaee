#include "ops/cpu/row_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/row_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <bool kScale, bool kBias>
HWY_INLINE void normalize(const float* x, float* y, size_t n, float mean, float factor, const float* scale,
                          const float* bias) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V m = hn::Set(d, mean), f = hn::Set(d, factor);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), f);
    if constexpr (kScale && kBias) v = hn::MulAdd(v, hn::LoadU(d, scale + i), hn::LoadU(d, bias + i));
    else if constexpr (kScale) v = hn::Mul(v, hn::LoadU(d, scale + i));
    else if constexpr (kBias) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, y + i);
  }
  for (; i < n; ++i) y[i] = (x[i] - mean) * factor * (kScale ? scale[i] : 1.0f) + (kBias ? bias[i] : 0.0f);
}

void Normalize(const float* x, float* y, int64_t count, float mean, float factor, const float* scale,
               const float* bias) {
  const auto n = static_cast<size_t>(count);
  if (scale && bias) normalize<true, true>(x, y, n, mean, factor, scale, bias);
  else if (scale) normalize<true, false>(x, y, n, mean, factor, scale, bias);
  else if (bias) normalize<false, true>(x, y, n, mean, factor, scale, bias);
  else normalize<false, false>(x, y, n, mean, factor, scale, bias);
}

void Affine(const float* x, float* y, int64_t count, float mean, float factor, float shift) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  const V m = hn::Set(d, mean), f = hn::Set(d, factor), s = hn::Set(d, shift);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), m), f, s), d, y + i);
  for (; i < n; ++i) y[i] = (x[i] - mean) * factor + shift;
}

}  // namespace
}  // namespace sparkpilot::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(Normalize);
HWY_EXPORT(Affine);

void row_normalize(const float* x, float* y, int64_t n, float mean, float factor, const float* scale,
                   const float* bias) {
  HWY_DYNAMIC_DISPATCH(Normalize)(x, y, n, mean, factor, scale, bias);
}

void row_affine(const float* x, float* y, int64_t n, float mean, float factor, float shift) {
  HWY_DYNAMIC_DISPATCH(Affine)(x, y, n, mean, factor, shift);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

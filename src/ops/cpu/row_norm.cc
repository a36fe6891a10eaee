#include "ops/cpu/row_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/row_norm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sum over term(x[i]) with four accumulators; `term` sees zeros past the end only through `tail`, which masks them.
template <typename Term>
HWY_INLINE float sum_terms(const float* x, int64_t count, Term term) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  V a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = term(hn::LoadU(d, x + i), a);
    b = term(hn::LoadU(d, x + i + lanes), b);
    c = term(hn::LoadU(d, x + i + 2 * lanes), c);
    e = term(hn::LoadU(d, x + i + 3 * lanes), e);
  }
  for (; i + lanes <= n; i += lanes) a = term(hn::LoadU(d, x + i), a);
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  if (i < n) {
    // The last lanes, one scalar at a time in a vector's first lane: short, and no read past the end.
    for (; i < n; ++i) total = hn::GetLane(term(hn::Set(d, x[i]), hn::Set(d, total)));
  }
  return total;
}

float Sum(const float* x, int64_t n) {
  return sum_terms(x, n, [](V v, V sum) HWY_ATTR { return hn::Add(v, sum); });
}

float SumSquares(const float* x, int64_t n) {
  return sum_terms(x, n, [](V v, V sum) HWY_ATTR { return hn::MulAdd(v, v, sum); });
}

float SumSquaredDistance(const float* x, int64_t n, float mean) {
  const V centre = hn::Set(D(), mean);
  return sum_terms(x, n, [centre](V v, V sum) HWY_ATTR {
    const V distance = hn::Sub(v, centre);
    return hn::MulAdd(distance, distance, sum);
  });
}

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

}  // namespace sparkpilot::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(Sum);
HWY_EXPORT(SumSquares);
HWY_EXPORT(SumSquaredDistance);
HWY_EXPORT(Normalize);
HWY_EXPORT(Affine);

Moments row_moments(const float* x, int64_t n) {
  const auto count = static_cast<float>(n);
  const float mean = row_sum(x, n) / count;
  return {mean, HWY_DYNAMIC_DISPATCH(SumSquaredDistance)(x, n, mean) / count};
}

float row_sum(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(Sum)(x, n); }

float row_sum_squares(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(SumSquares)(x, n); }

void row_normalize(const float* x, float* y, int64_t n, float mean, float factor, const float* scale,
                   const float* bias) {
  HWY_DYNAMIC_DISPATCH(Normalize)(x, y, n, mean, factor, scale, bias);
}

void row_affine(const float* x, float* y, int64_t n, float mean, float factor, float shift) {
  HWY_DYNAMIC_DISPATCH(Affine)(x, y, n, mean, factor, shift);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

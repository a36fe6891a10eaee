#include "ops/cpu/vector/adamw_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/adamw_rows.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

namespace hn = hwy::HWY_NAMESPACE;

void adamw_impl(const AdamWStep& s, const AdamWRows& rows, int64_t first, int64_t last) {
  const hn::ScalableTag<float> d;
  const auto beta1 = hn::Set(d, s.beta1), beta2 = hn::Set(d, s.beta2);
  const auto rest1 = hn::Set(d, 1 - s.beta1), rest2 = hn::Set(d, 1 - s.beta2);
  const auto scale = hn::Set(d, s.scale), decay = hn::Set(d, s.decay), step = hn::Set(d, s.step);
  const auto root = hn::Set(d, s.root), epsilon = hn::Set(d, s.epsilon);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = first;
  const auto update = [&](auto x, auto gradient, auto& m, auto& v) HWY_ATTR {
    const auto g = hn::Mul(scale, gradient);
    m = hn::MulAdd(beta1, m, hn::Mul(rest1, g));
    v = hn::MulAdd(beta2, v, hn::Mul(rest2, hn::Mul(g, g)));
    const auto deviation = hn::MulAdd(hn::Sqrt(v), root, epsilon);
    return hn::NegMulAdd(step, hn::Div(m, deviation), hn::Mul(decay, x));
  };
  for (; i + lanes <= last; i += lanes) {
    auto m = hn::LoadU(d, rows.m + i), v = hn::LoadU(d, rows.v + i);
    const auto x = update(hn::LoadU(d, rows.x + i), hn::LoadU(d, rows.gradient + i), m, v);
    hn::StoreU(x, d, rows.next_x + i);
    hn::StoreU(m, d, rows.next_m + i);
    hn::StoreU(v, d, rows.next_v + i);
  }
  // The remainder is computed by the same vector code, so that the split into pieces does not change any bit.
  if (i == last) return;
  HWY_ALIGN float x[HWY_LANES(float)] = {}, g[HWY_LANES(float)] = {}, m[HWY_LANES(float)] = {},
                  v[HWY_LANES(float)] = {};
  const int64_t left = last - i;
  for (int64_t k = 0; k < left; ++k) {
    x[k] = rows.x[i + k], g[k] = rows.gradient[i + k], m[k] = rows.m[i + k], v[k] = rows.v[i + k];
  }
  auto next_m = hn::Load(d, m), next_v = hn::Load(d, v);
  hn::Store(update(hn::Load(d, x), hn::Load(d, g), next_m, next_v), d, x);
  hn::Store(next_m, d, m);
  hn::Store(next_v, d, v);
  for (int64_t k = 0; k < left; ++k) rows.next_x[i + k] = x[k], rows.next_m[i + k] = m[k], rows.next_v[i + k] = v[k];
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(adamw_impl);

void adamw_rows(const AdamWStep& step, const AdamWRows& rows, int64_t first, int64_t last) {
  HWY_DYNAMIC_DISPATCH(adamw_impl)(step, rows, first, last);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

#include "ops/cpu/vector/vector_math.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/vector_rows.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/sum_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

struct SumAbs {
  const float* x;
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, V s) const {
    return hn::Add(s, hn::Abs(hn::LoadU(d, x + i)));
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, size_t n, V s) const {
    return hn::Add(s, hn::Abs(load_first(d, x + i, n)));
  }
};
float sum_impl(const float* x, int64_t n) { return sum_rows(n, SumFull{x}, SumFull{x}); }
float sum_abs_impl(const float* x, int64_t n) { return sum_rows(n, SumAbs{x}, SumAbs{x}); }
float dot_impl(const float* a, const float* b, int64_t n) { return sum_rows(n, SumProducts{a, b}, SumProducts{a, b}); }
float squares_about_impl(const float* x, float mean, int64_t n) {
  return sum_rows(n, SumSquaresAbout{x, mean}, SumSquaresAbout{x, mean});
}

// The largest of sign * x[i] times sign: the minimum with sign = -1.
template <bool kMin>
HWY_INLINE float extreme(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<hn::ScalableTag<float>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float start = kMin ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  V top0 = hn::Set(d, start), top1 = top0;
  V odd =
      hn::Zero(d);  // NaN if an element is: x - x is 0 or NaN; the NaN of an infinity is masked by comparing x itself
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    top0 = kMin ? hn::Min(top0, a) : hn::Max(top0, a);
    top1 = kMin ? hn::Min(top1, b) : hn::Max(top1, b);
    odd = hn::Or(odd, hn::Or(hn::VecFromMask(d, hn::IsNaN(a)), hn::VecFromMask(d, hn::IsNaN(b))));
  }
  const V top = kMin ? hn::Min(top0, top1) : hn::Max(top0, top1);
  // Lane by lane: the emulated target's MaxOfLanes begins at the lowest finite float and loses -infinity.
  HWY_ALIGN float each[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(top, d, each);
  float best = each[0];
  for (int64_t k = 1; k < lanes; ++k) best = kMin ? std::min(best, each[k]) : std::max(best, each[k]);
  const hn::RebindToUnsigned<decltype(d)> du;
  bool nan = !hn::AllTrue(du, hn::Eq(hn::BitCast(du, odd), hn::Zero(du)));
  for (; i < n; ++i) {
    nan |= x[i] != x[i];
    if (kMin ? x[i] < best : x[i] > best) best = x[i];
  }
  return nan ? std::numeric_limits<float>::quiet_NaN() : best;
}

float max_impl(const float* x, int64_t n) { return extreme<false>(x, n); }
float min_impl(const float* x, int64_t n) { return extreme<true>(x, n); }

float exp_sub_sum_impl(const float* in, float shift, float* out, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, shift);
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e0 = exp_flushed(d, hn::Sub(hn::LoadU(d, in + i), s));
    const auto e1 = exp_flushed(d, hn::Sub(hn::LoadU(d, in + i + lanes), s));
    hn::StoreU(e0, d, out + i);
    hn::StoreU(e1, d, out + i + lanes);
    sum0 = hn::Add(sum0, e0);
    sum1 = hn::Add(sum1, e1);
  }
  for (; i + lanes <= n; i += lanes) {
    const auto e = exp_flushed(d, hn::Sub(hn::LoadU(d, in + i), s));
    hn::StoreU(e, d, out + i);
    sum0 = hn::Add(sum0, e);
  }
  if (i < n) {
    const auto left = static_cast<size_t>(n - i);
    const auto e = exp_flushed(d, hn::Sub(load_first(d, in + i, left), s));
    store_first(d, e, out + i, left);
    sum1 = hn::Add(sum1, hn::IfThenElseZero(hn::FirstN(d, left), e));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

// Rows of at most kVectors vectors, each kept in registers from load to store.
template <int kVectors>
HWY_INLINE void short_softmax(const float* in, float* out, int64_t n, int64_t rows) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<hn::ScalableTag<float>>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V least = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < rows; ++r, in += n, out += n) {
    V v[kVectors];
    V top = least;
    for (int k = 0; k < kVectors; ++k) {
      const int64_t left = n - k * lanes;
      if (left >= lanes) v[k] = hn::LoadU(d, in + k * lanes);
      else if (left > 0)
        v[k] = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(left)),
                              load_first(d, in + k * lanes, static_cast<size_t>(left)), least);
      else v[k] = least;
      top = hn::Max(top, v[k]);  // any value will do for a row with NaN: its sum is NaN
    }
    top = hn::MaxOfLanes(d, top);
    V sum = hn::Zero(d);
    for (int k = 0; k < kVectors; ++k) {
      v[k] = exp_flushed(d, hn::Sub(v[k], top));
      sum = hn::Add(sum, v[k]);
    }
    const V factor = hn::Div(hn::Set(d, 1.0f), hn::SumOfLanes(d, sum));
    for (int k = 0; k < kVectors; ++k) {
      const int64_t left = n - k * lanes;
      const V y = hn::Mul(v[k], factor);
      if (left >= lanes) hn::StoreU(y, d, out + k * lanes);
      else if (left > 0) store_first(d, y, out + k * lanes, static_cast<size_t>(left));
    }
  }
}

void softmax_rows_impl(const float* in, float* out, int64_t n, int64_t rows) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  if (n <= lanes) return short_softmax<1>(in, out, n, rows);
  if (n <= 2 * lanes) return short_softmax<2>(in, out, n, rows);
  if (n <= 4 * lanes) return short_softmax<4>(in, out, n, rows);
  if (n <= 8 * lanes) return short_softmax<8>(in, out, n, rows);
  for (int64_t r = 0; r < rows; ++r, in += n, out += n) {
    const float sum = exp_sub_sum_impl(in, max_impl(in, n), out, n);
    vector_scalar_binary(BinaryMath::mul, out, 1 / sum, out, n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(sum_impl);
HWY_EXPORT(sum_abs_impl);
HWY_EXPORT(dot_impl);
HWY_EXPORT(squares_about_impl);
HWY_EXPORT(max_impl);
HWY_EXPORT(min_impl);
HWY_EXPORT(exp_sub_sum_impl);
HWY_EXPORT(softmax_rows_impl);

float row_max(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(max_impl)(x, n); }
float row_min(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(min_impl)(x, n); }
float row_sum(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_impl)(x, n); }
float row_sum_abs(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(sum_abs_impl)(x, n); }
float row_sum_squares(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(dot_impl)(x, x, n); }
float row_dot(const float* a, const float* b, int64_t n) { return HWY_DYNAMIC_DISPATCH(dot_impl)(a, b, n); }
float row_sum_squares_about(const float* x, float mean, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(squares_about_impl)(x, mean, n);
}
float exp_sub_sum(const float* in, float shift, float* out, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(exp_sub_sum_impl)(in, shift, out, n);
}
void softmax_rows(const float* in, float* out, int64_t n, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(softmax_rows_impl)(in, out, n, rows);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

// Sums over a row of floats in registers: include it inside a foreach_target file.
#if defined(SPARKPILOT_SUM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SUM_ROWS_INL_H_
#undef SPARKPILOT_SUM_ROWS_INL_H_
#else
#define SPARKPILOT_SUM_ROWS_INL_H_
#endif

#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {

// Sums fn(d, i-th vector) in four accumulators, which hides the latency of the additions; `part(d, i, n)` returns a
// last partial vector padded with zeros.
template <class Full, class Part>
HWY_INLINE float sum_rows(int64_t n, const Full& full, const Part& part) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = full(d, i, s0);
    s1 = full(d, i + lanes, s1);
    s2 = full(d, i + 2 * lanes, s2);
    s3 = full(d, i + 3 * lanes, s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = full(d, i, s0);
  if (i < n) s1 = part(d, i, static_cast<size_t>(n - i), s1);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

struct SumFull {
  const float* x;
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, V s) const {
    return hn::Add(s, hn::LoadU(d, x + i));
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, size_t n, V s) const {
    return hn::Add(s, load_first(d, x + i, n));
  }
};
struct SumProducts {
  const float *a, *b;
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, V s) const {
    return hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s);
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, size_t n, V s) const {
    return hn::MulAdd(load_first(d, a + i, n), load_first(d, b + i, n), s);
  }
};
struct SumSquaresAbout {
  const float* x;
  float mean;
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, V s) const {
    const V off = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::MulAdd(off, off, s);
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, int64_t i, size_t n, V s) const {
    const V off = hn::IfThenElseZero(hn::FirstN(d, n), hn::Sub(load_first(d, x + i, n), hn::Set(d, mean)));
    return hn::MulAdd(off, off, s);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_SUM_ROWS_INL_H_

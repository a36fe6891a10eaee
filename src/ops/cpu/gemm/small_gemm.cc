#include "ops/cpu/gemm/small_gemm.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm/small_gemm.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct Matrices {
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc, k;
  float alpha;
  bool add;
};

HWY_INLINE void finish(D d, V sum, const Matrices& m, float* c, int64_t left) {
  V v = hn::Mul(sum, hn::Set(d, m.alpha));
  const auto count = static_cast<size_t>(left);
  if (count >= hn::Lanes(d)) {
    if (m.add) v = hn::Add(v, hn::LoadU(d, c));
    hn::StoreU(v, d, c);
  } else {
    if (m.add) v = hn::Add(v, load_first(d, c, count));
    store_first(d, v, c, count);
  }
}

// One step of a row's sums: t[j] += x * b[j].
template <int kVecs>
HWY_INLINE void step(V x, V b0, V b1, V b2, V b3, V& t0, V& t1, V& t2, V& t3) {
  t0 = hn::MulAdd(x, b0, t0);
  if constexpr (kVecs > 1) t1 = hn::MulAdd(x, b1, t1);
  if constexpr (kVecs > 2) t2 = hn::MulAdd(x, b2, t2);
  if constexpr (kVecs > 3) t3 = hn::MulAdd(x, b3, t3);
}

template <int kVecs>
HWY_INLINE void store(const Matrices& m, float* c, int64_t count, V t0, V t1, V t2, V t3) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  finish(d, t0, m, c, count);
  if (kVecs > 1 && count > lanes) finish(d, t1, m, c + lanes, count - lanes);
  if (kVecs > 2 && count > 2 * lanes) finish(d, t2, m, c + 2 * lanes, count - 2 * lanes);
  if (kVecs > 3 && count > 3 * lanes) finish(d, t3, m, c + 3 * lanes, count - 3 * lanes);
}

// kRows rows of C by kVecs vectors, of which columns up to `n` are stored. Accumulators are separate variables, because
// arrays of vectors are not possible on every target.
template <int kRows, int kVecs>
HWY_INLINE void tile(const Matrices& m, int64_t row, int64_t column, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float *a0 = m.a + row * m.lda, *b = m.b + column;
  const float *a1 = a0 + (kRows > 1 ? m.lda : 0), *a2 = a0 + (kRows > 2 ? 2 * m.lda : 0);
  const float* a3 = a0 + (kRows > 3 ? 3 * m.lda : 0);
  V s00 = hn::Zero(d), s01 = s00, s02 = s00, s03 = s00, s10 = s00, s11 = s00, s12 = s00, s13 = s00;
  V s20 = s00, s21 = s00, s22 = s00, s23 = s00, s30 = s00, s31 = s00, s32 = s00, s33 = s00;
  for (int64_t p = 0; p < m.k; ++p, b += m.ldb) {
    const V b0 = hn::LoadU(d, b);
    const V b1 = kVecs > 1 ? hn::LoadU(d, b + lanes) : b0;
    const V b2 = kVecs > 2 ? hn::LoadU(d, b + 2 * lanes) : b0;
    const V b3 = kVecs > 3 ? hn::LoadU(d, b + 3 * lanes) : b0;
    step<kVecs>(hn::Set(d, a0[p]), b0, b1, b2, b3, s00, s01, s02, s03);
    if (kRows > 1) step<kVecs>(hn::Set(d, a1[p]), b0, b1, b2, b3, s10, s11, s12, s13);
    if (kRows > 2) step<kVecs>(hn::Set(d, a2[p]), b0, b1, b2, b3, s20, s21, s22, s23);
    if (kRows > 3) step<kVecs>(hn::Set(d, a3[p]), b0, b1, b2, b3, s30, s31, s32, s33);
  }
  float* c = m.c + row * m.ldc + column;
  store<kVecs>(m, c, n - column, s00, s01, s02, s03);
  if (kRows > 1) store<kVecs>(m, c + m.ldc, n - column, s10, s11, s12, s13);
  if (kRows > 2) store<kVecs>(m, c + 2 * m.ldc, n - column, s20, s21, s22, s23);
  if (kRows > 3) store<kVecs>(m, c + 3 * m.ldc, n - column, s30, s31, s32, s33);
}

template <int kRows>
HWY_INLINE void rows(const Matrices& m, int64_t row, int64_t n) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  // Sixteen registers hold 4 x 2 accumulators and the operands; with one or two rows there is room for four vectors.
  constexpr int kVecs = kRows > 2 ? 2 : 4;
  int64_t column = 0;
  for (; column + (kVecs - 1) * lanes < n; column += kVecs * lanes) tile<kRows, kVecs>(m, row, column, n);
  if (kVecs > 2 && column + lanes < n) {
    tile<kRows, 2>(m, row, column, n);
    column += 2 * lanes;
  }
  if (column < n) tile<kRows, 1>(m, row, column, n);
}

void gemm_impl(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t count,
               int64_t n, int64_t k, float alpha, bool add) {
  const Matrices m{a, lda, b, ldb, c, ldc, k, alpha, add};
  int64_t row = 0;
  for (; row + 4 <= count; row += 4) rows<4>(m, row, n);
  if (count - row == 3) rows<3>(m, row, n);
  if (count - row == 2) rows<2>(m, row, n);
  if (count - row == 1) rows<1>(m, row, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(gemm_impl);

void small_gemm(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc, int64_t m, int64_t n,
                int64_t k, float alpha, bool add) {
  HWY_DYNAMIC_DISPATCH(gemm_impl)(a, lda, b, ldb, c, ldc, m, n, k, alpha, add);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

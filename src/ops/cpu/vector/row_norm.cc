#include "ops/cpu/vector/row_norm.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/vector/row_norm.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/sum_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <bool kBias>
HWY_INLINE void normalize(const float* x, float* y, size_t n, float mean, float factor, const float* scale,
                          const float* bias) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const V m = hn::Set(d, mean), f = hn::Set(d, factor);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), f);
    const V s = hn::LoadU(d, scale + i);
    hn::StoreU(kBias ? hn::MulAdd(v, s, hn::LoadU(d, bias + i)) : hn::Mul(v, s), d, y + i);
  }
  for (; i < n; ++i) y[i] = (x[i] - mean) * factor * scale[i] + (kBias ? bias[i] : 0.0f);
}

// One step at a time over some rows: the processor overlaps more of them than in one loop.
void NormalizeRows(const RowNorm& norm, const float* x, float* y, int64_t rows) {
  constexpr int64_t kBlock = 16;
  const int64_t n = norm.n;
  const auto count = static_cast<float>(n);
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t block = std::min(kBlock, rows - first);
    const float* in = x + first * n;
    float mean[kBlock] = {}, inverse[kBlock];
    for (int64_t r = 0; r < block && !norm.rms; ++r)
      mean[r] = sum_rows(n, SumFull{in + r * n}, SumFull{in + r * n}) / count;
    for (int64_t r = 0; r < block; ++r) {
      const SumSquaresAbout squares{in + r * n, mean[r]};
      inverse[r] = 1 / std::sqrt(sum_rows(n, squares, squares) / count + norm.epsilon);
    }
    for (int64_t r = 0; r < block; ++r) {
      float* out = y + (first + r) * n;
      const auto size = static_cast<size_t>(n);
      if (norm.bias) normalize<true>(in + r * n, out, size, mean[r], inverse[r], norm.scale, norm.bias);
      else normalize<false>(in + r * n, out, size, mean[r], inverse[r], norm.scale, nullptr);
    }
    if (norm.means) std::copy_n(mean, block, norm.means + first);
    if (norm.inverses) std::copy_n(inverse, block, norm.inverses + first);
  }
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
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(NormalizeRows);
HWY_EXPORT(Affine);

void normalize_rows(const RowNorm& norm, const float* x, float* y, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(NormalizeRows)(norm, x, y, rows);
}

void row_affine(const float* x, float* y, int64_t n, float mean, float factor, float shift) {
  HWY_DYNAMIC_DISPATCH(Affine)(x, y, n, mean, factor, shift);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

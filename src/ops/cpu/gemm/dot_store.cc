#include "ops/cpu/gemm/dot_store.h"

#include <algorithm>
#include <limits>

#include "hwy/base.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sparkpilot {
namespace {

#if defined(__x86_64__)

#define SPARKPILOT_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

// g++ 12 warns about its own header if an intrinsic without a mask is used.
constexpr __mmask16 kAll = 0xffff;

// x / (1 + exp(-2 u)), which is x (1 + tanh(u)) / 2, with exp as a power of two: its fraction as a polynomial.
// The reciprocal is good to 2^-14.
SPARKPILOT_DOT inline __m512 gelu(__m512 x) {
  constexpr float kScale = -2.0f * 0.7978845608f * 1.4426950409f;
  const __m512 cubic = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(0.044715f * kScale), _mm512_set1_ps(kScale));
  const __m512 power = _mm512_mul_ps(x, cubic);
  // The fraction of infinity is 0, and scalef saturates: minus infinity becomes NaN, plus infinity stays.
  const __m512 f = _mm512_maskz_reduce_ps(kAll, power, _MM_FROUND_TO_NEG_INF);
  __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(0.0770671976f), _mm512_set1_ps(0.2276448217f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6951168246f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  const __m512 e = _mm512_maskz_scalef_ps(kAll, p, power);
  return _mm512_mul_ps(x, _mm512_maskz_rcp14_ps(kAll, _mm512_add_ps(e, _mm512_set1_ps(1.0f))));
}

struct Lines {
  const float* x;
  int64_t stride;
  const BFloat16* other;  // of DotStore::add
  BFloat16* y;
  int64_t output_stride;  // of `other`, too
  int64_t lines, length;
  float low, high;
};

template <DotStore::Last kLast, bool kClamps>
SPARKPILOT_DOT HWY_INLINE __m512 finished(const Lines& t, __m512 v, const BFloat16* other, __mmask16 mask) {
  if constexpr (kClamps) {  // comparisons with NaN are false
    const __m512 low = _mm512_set1_ps(t.low), high = _mm512_set1_ps(t.high);
    v = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, high, _CMP_GT_OQ), v, high);
    v = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, low, _CMP_LT_OQ), v, low);
  }
  if constexpr (kLast == DotStore::gelu_tanh) v = gelu(v);
  if constexpr (kLast == DotStore::add) {
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(mask, other));
    v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16)));
  }
  return v;
}

template <DotStore::Last kLast, bool kClamps>
SPARKPILOT_DOT void store_lines(const Lines& t) {
  for (int64_t line = 0; line < t.lines; ++line) {
    const float* x = t.x + line * t.stride;
    const auto other = [&](int64_t at) { return t.other ? t.other + line * t.output_stride + at : nullptr; };
    BFloat16* y = t.y + line * t.output_stride;
    int64_t i = 0;
    for (; i + 32 <= t.length; i += 32) {
      const __m512 first = finished<kLast, kClamps>(t, _mm512_loadu_ps(x + i), other(i), kAll);
      const __m512 second = finished<kLast, kClamps>(t, _mm512_loadu_ps(x + i + 16), other(i + 16), kAll);
      _mm512_storeu_si512(y + i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
    }
    for (; i < t.length; i += 16) {
      const auto mask = static_cast<__mmask16>(t.length - i >= 16 ? 0xffff : (1 << (t.length - i)) - 1);
      const __m512 v = finished<kLast, kClamps>(t, _mm512_maskz_loadu_ps(mask, x + i), other(i), mask);
      _mm256_mask_storeu_epi16(y + i, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
    }
  }
}

template <DotStore::Last kLast>
void store_lines(const Lines& lines) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (lines.low > -kInfinity || lines.high < kInfinity) store_lines<kLast, true>(lines);
  else store_lines<kLast, false>(lines);
}

#endif

}  // namespace

DotStore::DotStore(const Epilogue& epilogue) : first(epilogue) {
#if defined(__x86_64__)
  if (epilogue.empty()) return;
  const Epilogue::Step& step = epilogue.steps().back();
  if (step.kind == Epilogue::Step::activation && step.function == Activation::gelu_tanh) last = gelu_tanh;
  if (step.kind == Epilogue::Step::add && step.operand == Epilogue::Step::full && step.dtype == DType::bf16) last = add;
  if (last == none) return;
  at = static_cast<int>(epilogue.steps().size()) - 1;
  first = epilogue.without_last();
#endif
}

void DotStore::store(const Epilogue::Operands& operands, const Epilogue::Tile& tile, BFloat16* y) const {
  if (!first.empty()) first.apply_rows(operands, tile);
  const bool dense = tile.length == tile.stride && tile.length == tile.output_stride;
  const int64_t lines = dense ? 1 : tile.lines, length = dense ? tile.lines * tile.length : tile.length;
#if defined(__x86_64__)
  const auto* other =
      last == add ? static_cast<const BFloat16*>(operands[static_cast<size_t>(at)]) + tile.offset : nullptr;
  const Lines all{tile.data, tile.stride, other, y, tile.output_stride, lines, length, low, high};
  if (last == gelu_tanh) store_lines<gelu_tanh>(all);
  else if (last == add) store_lines<add>(all);
  else store_lines<none>(all);
#else
  for (int64_t i = 0; i < lines; ++i) {
    float_to_bfloat16_n(tile.data + i * tile.stride, y + i * tile.output_stride, length);
  }
#endif
}

}  // namespace sparkpilot

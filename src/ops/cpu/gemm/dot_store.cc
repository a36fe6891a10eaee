#include "ops/cpu/gemm/dot_store.h"

#include <algorithm>

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
  return _mm512_div_ps(x, _mm512_add_ps(e, _mm512_set1_ps(1.0f)));
}

template <DotStore::Last kLast>
SPARKPILOT_DOT inline __m256i finish(__m512 v, __m256i other) {
  if constexpr (kLast == DotStore::gelu_tanh) v = gelu(v);
  if constexpr (kLast == DotStore::add) {
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, other);
    v = _mm512_add_ps(v, _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16)));
  }
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
}

template <DotStore::Last kLast>
SPARKPILOT_DOT void store_line(const float* x, const BFloat16* other, BFloat16* y, int64_t n) {
  constexpr bool kReads = kLast == DotStore::add;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i from = kReads ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(other + i)) : __m256i{};
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), finish<kLast>(_mm512_loadu_ps(x + i), from));
  }
  if (i == n) return;
  const auto mask = static_cast<__mmask16>((1 << (n - i)) - 1);
  const __m256i from = kReads ? _mm256_maskz_loadu_epi16(mask, other + i) : __m256i{};
  _mm256_mask_storeu_epi16(y + i, mask, finish<kLast>(_mm512_maskz_loadu_ps(mask, x + i), from));
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
  for (int64_t i = 0; i < lines; ++i) {
    const float* x = tile.data + i * tile.stride;
    BFloat16* to = y + i * tile.output_stride;
#if defined(__x86_64__)
    const int64_t offset = tile.offset + i * tile.output_stride;
    if (last == gelu_tanh) store_line<gelu_tanh>(x, nullptr, to, length);
    else if (last == none) store_line<none>(x, nullptr, to, length);
    else store_line<add>(x, static_cast<const BFloat16*>(operands[static_cast<size_t>(at)]) + offset, to, length);
#else
    float_to_bfloat16_n(x, to, length);
#endif
  }
}

}  // namespace sparkpilot

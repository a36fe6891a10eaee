#include "ops/cpu/vector/dot_round.h"

#include "base/error.h"
#include "hw/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sparkpilot {

#if defined(__x86_64__)

bool has_dot_round() { return cpu_features().avx512_bf16; }

namespace {

#define SPARKPILOT_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

// The instruction treats denormals as zero.
SPARKPILOT_DOT inline bool has_denormals(__m512 x) { return _mm512_fpclass_ps_mask(x, 0x20) != 0; }

SPARKPILOT_DOT void round_vectors(const float* x, BFloat16* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const __m512 v = _mm512_loadu_ps(x + i);
    if (has_denormals(v)) {
      for (int64_t j = i; j < i + 16; ++j) y[j] = BFloat16(x[j]);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)));
    }
  }
}

}  // namespace

void dot_round(const float* x, BFloat16* y, int64_t n) {
  const int64_t whole = n / 16 * 16;
  round_vectors(x, y, whole);
  for (int64_t i = whole; i < n; ++i) y[i] = BFloat16(x[i]);
}

#else

bool has_dot_round() { return false; }
void dot_round(const float*, BFloat16*, int64_t) { fail_internal("no rounding to bf16 in hardware here"); }

#endif

}  // namespace sparkpilot

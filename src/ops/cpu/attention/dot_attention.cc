#include "ops/cpu/attention/dot_attention.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "hw/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sparkpilot {

#if defined(__x86_64__)

bool has_attention_dots() { return cpu_features().avx512_bf16; }

namespace {

#define SPARKPILOT_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

constexpr int64_t kLanes = 16;
constexpr int kMaxRows = 8, kVectors = 2;  // of a tile
// g++ 12 warns about its own header if an intrinsic without a mask is used.
constexpr __mmask16 kAll = 0xffff;

SPARKPILOT_DOT inline __m512bh broadcast_pair(const BFloat16* from) {
  int bits;
  std::memcpy(&bits, from, sizeof bits);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}

SPARKPILOT_DOT inline __m512 widen(__m256i x) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, x), 16));
}

struct Scores {
  const AttentionBlock& b;
  const DotRows& q;
  const float* pairs;
  int64_t half;
  float scale;
};

template <int kRows, int kVecs>
SPARKPILOT_DOT inline void score_tile(const Scores& s, int64_t row, int64_t key) {
  __m512 sums[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) sums[r][j] = _mm512_setzero_ps();
  }
  const float* pairs = s.pairs + key;
  const BFloat16* q = s.q.data + row * s.q.step;
  for (int64_t p = 0; p < s.half; ++p, pairs += s.b.stride) {
    __m512bh keys[kVecs];
    for (int j = 0; j < kVecs; ++j) keys[j] = reinterpret_cast<__m512bh>(_mm512_loadu_ps(pairs + j * kLanes));
    for (int r = 0; r < kRows; ++r) {
      const __m512bh x = broadcast_pair(q + r * s.q.step + 2 * p);
      for (int j = 0; j < kVecs; ++j) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], x, keys[j]);
    }
  }
  float* to = s.b.scores + row * s.b.stride + key;
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) {
      _mm512_storeu_ps(to + r * s.b.stride + j * kLanes, _mm512_mul_ps(sums[r][j], _mm512_set1_ps(s.scale)));
    }
  }
}

template <int kRows>
SPARKPILOT_DOT void score_rows(const Scores& s, int64_t row) {
  const KeyRange seen = seen_by(s.b.seen + row, kRows);
  int64_t key = seen.first / kLanes * kLanes;
  for (; key + kLanes < seen.last; key += kVectors * kLanes) score_tile<kRows, kVectors>(s, row, key);
  if (key < seen.last) score_tile<kRows, 1>(s, row, key);
}

struct Values {
  const AttentionBlock& b;
  const DotRows& v;
  int64_t size;
  const float* inverse;
  BFloat16* y;
  int64_t y_step;
};

template <int kRows, int kVecs, bool kWhole>
SPARKPILOT_DOT inline void value_tile(const Values& s, int64_t row, int64_t column) {
  const int64_t left = s.size - column - (kVecs - 1) * kLanes;
  const auto mask = static_cast<__mmask16>(kWhole ? 0xffff : (1 << left) - 1);  // of the last vector
  const KeyRange seen = seen_by(s.b.seen + row, kRows);
  __m512 sums[kRows][kVecs];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) sums[r][j] = _mm512_setzero_ps();
  }
  const float* weights = s.b.scores + row * s.b.stride;
  const BFloat16* v = s.v.data + seen.first * s.v.step + column;
  for (int64_t key = seen.first; key < seen.last; ++key, v += s.v.step) {
    __m512 values[kVecs];
    for (int j = 0; j < kVecs; ++j) {
      const auto* from = reinterpret_cast<const __m256i*>(v + j * kLanes);
      values[j] = widen(kWhole || j + 1 < kVecs ? _mm256_loadu_si256(from) : _mm256_maskz_loadu_epi16(mask, from));
    }
    for (int r = 0; r < kRows; ++r) {
      const __m512 weight = _mm512_set1_ps(weights[r * s.b.stride + key]);
      for (int j = 0; j < kVecs; ++j) sums[r][j] = _mm512_fmadd_ps(weight, values[j], sums[r][j]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const __m512 inverse = _mm512_set1_ps(s.inverse[row + r]);
    for (int j = 0; j < kVecs; ++j) {
      const auto result = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_mul_ps(sums[r][j], inverse)));
      auto* to = reinterpret_cast<__m256i*>(s.y + (row + r) * s.y_step + column + j * kLanes);
      if (kWhole || j + 1 < kVecs) _mm256_storeu_si256(to, result);
      else _mm256_mask_storeu_epi16(to, mask, result);
    }
  }
}

template <int kRows>
SPARKPILOT_DOT void value_rows(const Values& s, int64_t row) {
  int64_t column = 0;
  for (; column + kVectors * kLanes <= s.size; column += kVectors * kLanes) {
    value_tile<kRows, kVectors, true>(s, row, column);
  }
  if (column + kLanes < s.size) value_tile<kRows, kVectors, false>(s, row, column);
  else if (column + kLanes == s.size) value_tile<kRows, 1, true>(s, row, column);
  else if (column < s.size) value_tile<kRows, 1, false>(s, row, column);
}

// Calls `by_height[height - 1]` for tiles of nearly equal height.
template <typename Work>
void for_tiles(int64_t rows, const std::array<void (*)(const Work&, int64_t), kMaxRows>& by_height, const Work& work) {
  for (int64_t row = 0; row < rows;) {
    const int64_t height = tile_height(rows - row, kMaxRows);
    by_height[static_cast<size_t>(height - 1)](work, row);
    row += height;
  }
}

template <int... kHeights>
constexpr auto score_kernels(std::integer_sequence<int, kHeights...>) {
  return std::array<void (*)(const Scores&, int64_t), kMaxRows>{score_rows<kHeights + 1>...};
}
template <int... kHeights>
constexpr auto value_kernels(std::integer_sequence<int, kHeights...>) {
  return std::array<void (*)(const Values&, int64_t), kMaxRows>{value_rows<kHeights + 1>...};
}
using Heights = std::make_integer_sequence<int, kMaxRows>;

}  // namespace

void attention_dot_scores(const AttentionBlock& b, const DotRows& q, const DotRows& k, int64_t size, float scale,
                          float* pairs) {
  // A pair is as large as a float, and transposing does not interpret it.
  transpose_keys({reinterpret_cast<const float*>(k.data), k.step / 2}, b.keys, size / 2, pairs, b.stride);
  for_tiles(b.rows, score_kernels(Heights()), Scores{b, q, pairs, size / 2, scale});
}

void attention_dot_values(const AttentionBlock& b, const DotRows& v, int64_t size, const float* inverse, BFloat16* y,
                          int64_t y_step) {
  for_tiles(b.rows, value_kernels(Heights()), Values{b, v, size, inverse, y, y_step});
}

#else

bool has_attention_dots() { return false; }
void attention_dot_scores(const AttentionBlock&, const DotRows&, const DotRows&, int64_t, float, float*) {
  fail_internal("no dot products of bf16 here");
}
void attention_dot_values(const AttentionBlock&, const DotRows&, int64_t, const float*, BFloat16*, int64_t) {
  fail_internal("no dot products of bf16 here");
}

#endif

}  // namespace sparkpilot

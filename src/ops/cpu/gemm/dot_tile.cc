#include "ops/cpu/gemm/dot_tile.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "hw/cpu.h"
#include "hwy/base.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && (defined(__ARM_FEATURE_BF16) || !defined(__clang__))
#include "ops/cpu/gemm/dot_bfmmla.h"
#endif

// Highway 1.0 does not support these instructions, so this uses the processors' intrinsics.
namespace sparkpilot {
namespace {

constexpr int64_t kPanel = DotMatrix::kPanel;
[[maybe_unused]] constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Some rows of a piece, for one or several panels.
struct Tile {
  const BFloat16* a;  // packed (pack_rows) for bfmmla, else with lda between rows
  int64_t lda, depth;
  const BFloat16* b;
  int64_t panel_size;  // elements per panel
  const float* bias;
  float low, high;
  float* y;
  BFloat16* rounded;
  int64_t stride;
  int64_t columns;  // of `rounded`
};

#if defined(__x86_64__)

#define SPARKPILOT_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
constexpr int kMaxRows = 10;

// Few rows use several panels at once: an addition to a sum waits six cycles for the previous one.
constexpr int panels_at_once(int rows) { return rows <= 3 ? 4 : rows <= 6 ? 2 : 1; }

template <typename T>
SPARKPILOT_DOT HWY_INLINE __m512bh broadcast(const BFloat16* from) {
  T bits;
  std::memcpy(&bits, from, sizeof bits);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(bits)));
}

SPARKPILOT_DOT HWY_INLINE __m512bh load(const BFloat16* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

// Two depths, or one if T is uint16_t.
template <typename T, int kRows, int kVectors>
SPARKPILOT_DOT HWY_INLINE void step(const BFloat16* const (&rows)[kRows], int64_t p,
                                    const BFloat16* const (&b)[kVectors], __m512 (&sums)[kRows][kVectors]) {
  if constexpr (kRows <= kVectors) {  // the shorter side of the tile is kept in registers
    __m512bh x[kRows];
    HWY_UNROLL(10)
    for (int r = 0; r < kRows; ++r) x[r] = broadcast<T>(rows[r] + p);
    HWY_UNROLL(10)
    for (int j = 0; j < kVectors; ++j) {
      // One or two rows wait for memory, in more streams than the processor follows: a seventh to a fifth less time on
      // a Xeon with AMX.
      if constexpr (kRows <= 2) _mm_prefetch(b[j] + (p + 32) * kPanel, _MM_HINT_T0);
      const __m512bh weights = load(b[j] + p * kPanel);
      HWY_UNROLL(10)
      for (int r = 0; r < kRows; ++r) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], x[r], weights);
    }
  } else {
    __m512bh weights[kVectors];
    HWY_UNROLL(10)
    for (int j = 0; j < kVectors; ++j) weights[j] = load(b[j] + p * kPanel);
    HWY_UNROLL(10)
    for (int r = 0; r < kRows; ++r) {
      const __m512bh x = broadcast<T>(rows[r] + p);
      HWY_UNROLL(10)
      for (int j = 0; j < kVectors; ++j) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], x, weights[j]);
    }
  }
}

template <int kRows, int kPanels>
SPARKPILOT_DOT HWY_NOINLINE void tile(const Tile& t) {
  constexpr int kLanes = 16, kEach = kPanel / kLanes, kVectors = kPanels * kEach;
  __m512 sums[kRows][kVectors];
  const BFloat16* b[kVectors];
  HWY_UNROLL(10)
  for (int j = 0; j < kVectors; ++j) {
    b[j] = t.b + j / kEach * t.panel_size + j % kEach * 2 * kLanes;
    const __m512 first = t.bias ? _mm512_loadu_ps(t.bias + j * kLanes) : _mm512_setzero_ps();
    HWY_UNROLL(10)
    for (int r = 0; r < kRows; ++r) sums[r][j] = first;
  }
  const BFloat16* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = t.a + r * t.lda;
  int64_t p = 0;
  for (; p + 2 <= t.depth; p += 2) step<uint32_t>(rows, p, b, sums);
  if (p < t.depth) step<uint16_t>(rows, p, b, sums);
  const __m512 low = _mm512_set1_ps(t.low), high = _mm512_set1_ps(t.high);
  const bool clamps = t.low > -kInfinity || t.high < kInfinity;
  HWY_UNROLL(10)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(10)
    for (int j = 0; j < kVectors; ++j) {
      __m512 sum = sums[r][j];
      if (clamps) {  // comparisons with NaN are false
        sum = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(sum, high, _CMP_GT_OQ), sum, high);
        sum = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(sum, low, _CMP_LT_OQ), sum, low);
      }
      const int64_t at = r * t.stride + j * kLanes, left = t.columns - j * kLanes;
      if (!t.rounded) {
        _mm512_storeu_ps(t.y + at, sum);
        continue;
      }
      const auto bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum));
      if (left >= kLanes) _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.rounded + at), bits);
      else if (left > 0) _mm256_mask_storeu_epi16(t.rounded + at, static_cast<__mmask16>((1 << left) - 1), bits);
    }
  }
}

#elif defined(SPARKPILOT_BFMMLA)

#define SPARKPILOT_DOT SPARKPILOT_BFMMLA
constexpr int kMaxRows = 12;

template <int kRows = 1>
void pack_rows(int rows, const BFloat16* a, int64_t lda, int64_t depth, BFloat16* to) {
  if constexpr (kRows <= kMaxRows) {
    if (rows == kRows) pack_rows<kRows>(a, lda, depth, to);
    else pack_rows<kRows + 1>(rows, a, lda, depth, to);
  }
}

// Two rows of sums as the instruction leaves them, [row, column] of two, are four columns of each row.
SPARKPILOT_DOT HWY_INLINE float32x4_t of_row(int row, float32x4_t one, float32x4_t two) {
  const auto x = reinterpret_cast<float64x2_t>(one), y = reinterpret_cast<float64x2_t>(two);
  return reinterpret_cast<float32x4_t>(row % 2 == 0 ? vzip1q_f64(x, y) : vzip2q_f64(x, y));
}

// Two vectors of sums, rounded: four pairs of columns, of the first row, the second, the first, the second.
SPARKPILOT_DOT HWY_INLINE uint32x4_t rounded_pairs(float32x4_t one, float32x4_t two) {
  return vreinterpretq_u32_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(one), two));
}

// Eight columns of a row, of which `left` exist.
HWY_INLINE void store_columns(uint32x4_t values, int64_t left, BFloat16* to) {
  const uint16x8_t bits = vreinterpretq_u16_u32(values);
  if (left >= 8) {
    vst1q_u16(reinterpret_cast<uint16_t*>(to), bits);
  } else if (left > 0) {
    uint16_t some[8];
    vst1q_u16(some, bits);
    std::memcpy(to, some, static_cast<size_t>(2 * left));
  }
}

// What all blocks of a tile share, read once: stores could change what a Tile holds.
struct Shared {
  const BFloat16* a;
  int64_t groups, stride;
  float low, high;
  bool clamps;
};

// An instruction multiplies two rows by two columns, four deep. So many columns of a panel, `left` of which exist, to y
// or rounded.
template <int kRows, int kColumns>
SPARKPILOT_DOT HWY_INLINE void columns_of(const Shared& t, const BFloat16* b, const float* bias, float* y,
                                          BFloat16* rounded, int64_t left) {
  constexpr int kPairs = (kRows + 1) / 2, kVectors = kColumns / 2;
  float32x4_t sums[kPairs][kVectors];
  bfmmla_sums<4 * kPanel>(t.a, b, t.groups, bias, sums);
  // Constants, so that no sum changes its register on the way: whether sums are bounded, and whether all columns exist.
  const auto store = [&](auto clamps, auto whole) __attribute__((always_inline)) SPARKPILOT_DOT {
    if constexpr (clamps) {  // NEON's minimum and maximum keep NaN
      const float32x4_t low = vdupq_n_f32(t.low), high = vdupq_n_f32(t.high);
      HWY_UNROLL(8)
      for (int r = 0; r < kPairs; ++r) {
        HWY_UNROLL(16)
        for (int j = 0; j < kVectors; ++j) sums[r][j] = vmaxq_f32(low, vminq_f32(high, sums[r][j]));
      }
    }
    if (!rounded) {
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(8)
        for (int j = 0; j < kVectors; j += 2) {
          vst1q_f32(y + r * t.stride + 2 * j, of_row(r, sums[r / 2][j], sums[r / 2][j + 1]));
        }
      }
      return;
    }
    BFloat16* to = rounded;
    HWY_UNROLL(8)
    for (int r = 0; r < kPairs; ++r, to += 2 * t.stride) {
      HWY_UNROLL(4)
      for (int j = 0; j < kVectors; j += 4) {
        const uint32x4_t first = rounded_pairs(sums[r][j], sums[r][j + 1]);
        const uint32x4_t second = rounded_pairs(sums[r][j + 2], sums[r][j + 3]);
        const int64_t columns = whole ? 8 : left - 2 * j;
        store_columns(vuzp1q_u32(first, second), columns, to + 2 * j);
        if (2 * r + 1 < kRows) store_columns(vuzp2q_u32(first, second), columns, to + t.stride + 2 * j);
      }
    }
  };
  if (t.clamps) {
    if (left >= kColumns) store(std::true_type(), std::true_type());
    else store(std::true_type(), std::false_type());
  } else {
    if (left >= kColumns) store(std::false_type(), std::true_type());
    else store(std::false_type(), std::false_type());
  }
}

template <int kRows>
SPARKPILOT_DOT HWY_NOINLINE void tile(const Tile& t, int64_t panels) {
  // As many columns at once as keep sums, rows and weights in registers.
  constexpr int kPairs = (kRows + 1) / 2, kColumns = kPairs == 1 ? 32 : kPairs <= 3 ? 16 : 8;
  static_assert(kPanel % kColumns == 0);
  static constexpr float kZeros[kPanel] = {};
  const Shared shared{t.a, (t.depth + 3) / 4, t.stride, t.low, t.high, t.low > -kInfinity || t.high < kInfinity};
  const BFloat16* b = t.b;
  const float* bias = t.bias ? t.bias : kZeros;
  float* y = t.y;
  BFloat16* rounded = t.rounded;
  const int64_t next_b = t.panel_size - 4 * kPanel, next_bias = t.bias ? 0 : -kPanel;
  for (int64_t left = t.columns; panels > 0; --panels, b += next_b, bias += next_bias) {
    for (int64_t end = left - kPanel; left > end; left -= kColumns) {
      columns_of<kRows, kColumns>(shared, b, bias, y, rounded, left);
      b += 4 * kColumns;
      bias += kColumns;
      if (rounded) rounded += kColumns;
      else y += kColumns;
    }
  }
}

#endif

#if defined(SPARKPILOT_DOT)

// Multiplies kRows rows by panels [0, count).
template <int kRows>
void panels(Tile t, int64_t count) {
#if defined(SPARKPILOT_BFMMLA)
  tile<kRows>(t, count);
#else
  constexpr int kAtOnce = panels_at_once(kRows);
  const auto on = [&](int64_t n) {
    t.b += n * t.panel_size;
    t.bias = t.bias ? t.bias + n * kPanel : nullptr;
    if (t.y) t.y += n * kPanel;
    if (t.rounded) t.rounded += n * kPanel;
    t.columns -= n * kPanel;
    count -= n;
  };
  while (count >= kAtOnce) {
    tile<kRows, kAtOnce>(t);
    on(kAtOnce);
  }
  while (count > 0) {
    tile<kRows, 1>(t);
    on(1);
  }
#endif
}

template <int kRows = 1>
void panels(int rows, const Tile& t, int64_t count) {
  if constexpr (kRows <= kMaxRows) {
    if (rows == kRows) panels<kRows>(t, count);
    else panels<kRows + 1>(rows, t, count);
  }
}

#endif

}  // namespace

int64_t dot_group() {
  const CpuFeatures& cpu = cpu_features();
#if defined(__x86_64__)
  return cpu.avx512_bf16 ? 2 : 0;
#elif defined(SPARKPILOT_BFMMLA)
  return cpu.neon_bf16 ? 4 : 0;
#else
  return (void)cpu, 0;
#endif
}

DotMatrix pack_dots(const ConstView& source, int64_t depth, int64_t columns, const PanelSource& where, int64_t step) {
  const int64_t group = dot_group(), padded = (depth + step - 1) / step * step, groups = (padded + group - 1) / group;
  DotMatrix out{depth, columns, {}};
  out.data = Tensor::zeros(DType::bf16, Shape{out.panels(), groups, kPanel, group});
  const BFloat16* from = source.as<BFloat16>();
  for (int64_t panel = 0; panel < out.panels(); ++panel) {
    BFloat16* to = static_cast<BFloat16*>(out.data.raw()) + panel * groups * group * kPanel;
    const int64_t first = panel * kPanel, count = std::min(kPanel, columns - first);
    for (int64_t p = 0; p < depth; ++p) {
      const BFloat16* row = from + where.row(p);
      for (int64_t j = 0; j < count; ++j) {
        to[(p / group * kPanel + j) * group + p % group] = row[(first + j) * where.column];
      }
    }
  }
  return out;
}

void multiply_dots(const DotMatrix& b, const DotPiece& piece) {
#if defined(SPARKPILOT_DOT)
  constexpr int64_t kAtOnce = 4;  // panels for which all rows are processed before the next ones
  const int64_t panel_size = b.data.shape()[1] * b.data.shape()[2] * b.data.shape()[3];
  const BFloat16* data = b.data.data<BFloat16>().data();
  // Calls fn(row, height) for tiles: of nearly equal height, or as many of the largest, whose share of loads is least.
  const auto each_tile = [&](const auto& fn) {
    for (int64_t row = 0; row < piece.rows;) {
      const int64_t left = piece.rows - row;
#if defined(SPARKPILOT_BFMMLA)
      const auto height = static_cast<int>(std::min<int64_t>(left, kMaxRows));
#else
      const int64_t tiles = (left + kMaxRows - 1) / kMaxRows;
      const auto height = static_cast<int>((left + tiles - 1) / tiles);
#endif
      fn(row, height);
      row += height;
    }
  };
#if defined(SPARKPILOT_BFMMLA)
  thread_local std::vector<BFloat16> rows;  // packed once, for all panels
  const int64_t row_size = (b.depth + 3) / 4 * 4;
  rows.resize(static_cast<size_t>(2 * piece.rows * row_size));
  each_tile([&](int64_t row, int height) {
    pack_rows(height, piece.a + row * piece.lda, piece.lda, b.depth, rows.data() + 2 * row * row_size);
  });
#endif
  for (int64_t panel = piece.first_panel; panel < piece.last_panel; panel += kAtOnce) {
    const int64_t count = std::min(kAtOnce, piece.last_panel - panel);
    each_tile([&](int64_t row, int height) {
#if defined(SPARKPILOT_BFMMLA)
      const BFloat16* a = rows.data() + 2 * row * row_size;
#else
      const BFloat16* a = piece.a + row * piece.lda;
#endif
      const int64_t at = row * piece.stride + (panel - piece.first_panel) * kPanel;
      panels(height,
             Tile{.a = a,
                  .lda = piece.lda,
                  .depth = b.depth,
                  .b = data + panel * panel_size,
                  .panel_size = panel_size,
                  .bias = piece.bias ? piece.bias + panel * kPanel : nullptr,
                  .low = piece.low,
                  .high = piece.high,
                  .y = piece.y ? piece.y + at : nullptr,
                  .rounded = piece.rounded ? piece.rounded + at : nullptr,
                  .stride = piece.stride,
                  .columns = b.columns - panel * kPanel},
             count);
    });
  }
#else
  (void)b, (void)piece;
  fail_internal("no dot products of bf16 here");
#endif
}

}  // namespace sparkpilot

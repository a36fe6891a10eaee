// What bfmmla of 64-bit Arm multiplies: two rows by two columns, four depths of each in a vector; the sums of a tile.
#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "hwy/base.h"
#include "tensor/tensor.h"

#define SPARKPILOT_BFMMLA __attribute__((target("arch=armv8.2-a+bf16")))

namespace sparkpilot {

SPARKPILOT_BFMMLA HWY_INLINE bfloat16x8_t load_bf16(const BFloat16* from) {
  return vreinterpretq_bf16_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(from)));
}

// kDepths depths of kCount adjacent pairs of the kPairs pairs of rows that a tile has.
template <int kPairs, int kCount, int kDepths>
SPARKPILOT_BFMMLA HWY_INLINE void pack_depths(const BFloat16* const (&rows)[2 * kCount], int64_t p, BFloat16* to) {
  uint64x2_t x[2 * kCount][kDepths / 8];
  HWY_UNROLL(4)
  for (int r = 0; r < 2 * kCount; ++r) {
    HWY_UNROLL(4)
    for (int i = 0; i < kDepths / 8; ++i) x[r][i] = reinterpret_cast<uint64x2_t>(load_bf16(rows[r] + p + 8 * i));
  }
  HWY_UNROLL(8)
  for (int g = 0; g < kDepths / 4; ++g) {
    uint64x2_t pairs[kCount];
    HWY_UNROLL(2)
    for (int r = 0; r < kCount; ++r) {
      const uint64x2_t first = x[2 * r][g / 2], second = x[2 * r + 1][g / 2];
      pairs[r] = g % 2 == 0 ? vzip1q_u64(first, second) : vzip2q_u64(first, second);
    }
    HWY_UNROLL(2)
    for (int r = 0; r < kCount; ++r) vst1q_u64(reinterpret_cast<uint64_t*>(to + (g * kPairs + r) * 8), pairs[r]);
  }
}

template <int kPairs, int kCount>
SPARKPILOT_BFMMLA HWY_INLINE void pack_pairs(const BFloat16* const (&rows)[2 * kCount], int64_t depth, BFloat16* to) {
  constexpr int kGroup = 8 * kPairs;
  int64_t p = 0;
  for (; p + 32 <= depth; p += 32, to += 8 * kGroup) pack_depths<kPairs, kCount, 32>(rows, p, to);
  for (; p + 8 <= depth; p += 8, to += 2 * kGroup) pack_depths<kPairs, kCount, 8>(rows, p, to);
  for (; p < depth; p += 4, to += kGroup) {
    for (int r = 0; r < 2 * kCount; ++r) {
      for (int i = 0; i < 4; ++i) to[4 * r + i] = p + i < depth ? rows[r][p + i] : BFloat16{};
    }
  }
}

// The rows of a tile as the instruction reads them, [groups of four depths, pairs of rows, 2, 4]: zeros behind the
// depth, and the last row twice where there is an odd number.
template <int kRows>
SPARKPILOT_BFMMLA HWY_NOINLINE void pack_rows(const BFloat16* a, int64_t lda, int64_t depth, BFloat16* to) {
  constexpr int kPairs = (kRows + 1) / 2;
  const auto row = [&](int r) { return a + std::min(r, kRows - 1) * lda; };
  int r = 0;
  for (; r + 2 <= kPairs; r += 2, to += 16) {
    pack_pairs<kPairs, 2>({row(2 * r), row(2 * r + 1), row(2 * r + 2), row(2 * r + 3)}, depth, to);
  }
  if (r < kPairs) pack_pairs<kPairs, 1>({row(2 * r), row(2 * r + 1)}, depth, to);
}

// Groups of four depths: of `a` a vector for every two rows; of `b` one for every two columns, with kStride elements
// from group to group. sums[r][j], two rows by two columns each, become `bias` of the columns plus the products of all
// groups.
template <int kStride, int kPairs, int kVectors>
SPARKPILOT_BFMMLA HWY_INLINE void bfmmla_sums(const BFloat16* a, const BFloat16* b, int64_t groups, const float* bias,
                                              float32x4_t (&sums)[kPairs][kVectors]) {
  HWY_UNROLL(16)
  for (int j = 0; j < kVectors; ++j) {
    const float32x2_t first = vld1_f32(bias + 2 * j);
    HWY_UNROLL(8)
    for (int r = 0; r < kPairs; ++r) sums[r][j] = vcombine_f32(first, first);
  }
  HWY_UNROLL(4)
  for (int64_t g = 0; g < groups; ++g, a += 8 * kPairs, b += kStride) {
    // The shorter side of the tile stays in registers, the other comes in pairs, which are one instruction to load.
    if constexpr (kPairs >= kVectors) {
      bfloat16x8_t weights[kVectors];
      HWY_UNROLL(4)
      for (int j = 0; j < kVectors; ++j) weights[j] = load_bf16(b + 8 * j);
      HWY_UNROLL(4)
      for (int r = 0; r < kPairs; r += 2) {
        const bfloat16x8_t x = load_bf16(a + 8 * r), next = r + 1 < kPairs ? load_bf16(a + 8 * (r + 1)) : x;
        HWY_UNROLL(4)
        for (int j = 0; j < kVectors; ++j) sums[r][j] = vbfmmlaq_f32(sums[r][j], x, weights[j]);
        HWY_UNROLL(4)
        for (int j = 0; j < kVectors && r + 1 < kPairs; ++j) {
          sums[r + 1][j] = vbfmmlaq_f32(sums[r + 1][j], next, weights[j]);
        }
      }
    } else {
      bfloat16x8_t x[kPairs];
      HWY_UNROLL(4)
      for (int r = 0; r < kPairs; ++r) x[r] = load_bf16(a + 8 * r);
      HWY_UNROLL(8)
      for (int j = 0; j < kVectors; j += 2) {
        const bfloat16x8_t weights = load_bf16(b + 8 * j), next = load_bf16(b + 8 * (j + 1));
        HWY_UNROLL(4)
        for (int r = 0; r < kPairs; ++r) sums[r][j] = vbfmmlaq_f32(sums[r][j], x[r], weights);
        HWY_UNROLL(4)
        for (int r = 0; r < kPairs; ++r) sums[r][j + 1] = vbfmmlaq_f32(sums[r][j + 1], x[r], next);
      }
    }
  }
}

// The same for eight columns and twelve or eight rows, most of the work, in assembly: in a loop that takes thirty
// registers g++ 12 moves sums out of theirs and back.
// clang-format off

// Four rows, whose vectors are at `from`, by the eight columns in v26 to v29.
#define SPARKPILOT_FOUR_ROWS(from, s0, s1, s2, s3, s4, s5, s6, s7)              \
  "ldp q30, q31, " from "\n"                                                    \
  "bfmmla %" #s0 ".4s, v30.8h, v26.8h\n bfmmla %" #s1 ".4s, v30.8h, v27.8h\n"   \
  "bfmmla %" #s2 ".4s, v30.8h, v28.8h\n bfmmla %" #s3 ".4s, v30.8h, v29.8h\n"   \
  "bfmmla %" #s4 ".4s, v31.8h, v26.8h\n bfmmla %" #s5 ".4s, v31.8h, v27.8h\n"   \
  "bfmmla %" #s6 ".4s, v31.8h, v28.8h\n bfmmla %" #s7 ".4s, v31.8h, v29.8h\n"
// All rows of group g of eight: `a` points behind the eight once the first vectors, which are at `first`, are loaded.
#define SPARKPILOT_EIGHT_ROWS(g, first)                                          \
  SPARKPILOT_FOUR_ROWS(first, 0, 1, 2, 3, 4, 5, 6, 7)                            \
  SPARKPILOT_FOUR_ROWS("[%[a], #(64 * " g " - 480)]", 8, 9, 10, 11, 12, 13, 14, 15)
#define SPARKPILOT_TWELVE_ROWS(g, first)                                         \
  SPARKPILOT_FOUR_ROWS(first, 0, 1, 2, 3, 4, 5, 6, 7)                            \
  SPARKPILOT_FOUR_ROWS("[%[a], #(96 * " g " - 736)]", 8, 9, 10, 11, 12, 13, 14, 15) \
  SPARKPILOT_FOUR_ROWS("[%[a], #(96 * " g " - 704)]", 16, 17, 18, 19, 20, 21, 22, 23)
#define SPARKPILOT_COLUMNS(first, second) "ldp q26, q27, " first "\n ldp q28, q29, " second "\n"
#define SPARKPILOT_EVEN SPARKPILOT_COLUMNS("[%[b]], #512", "[%[b], #-480]")
#define SPARKPILOT_ODD SPARKPILOT_COLUMNS("[%[b], #-256]", "[%[b], #-224]")
// Groups beyond whole eights come first, one at a time.
#define SPARKPILOT_GROUPS(rows, bytes)                                           \
  "ands x9, %[groups], #7\n b.eq 2f\n"                                           \
  "1:\n"                                                                        \
  SPARKPILOT_COLUMNS("[%[b]], #256", "[%[b], #-224]") rows("7", "[%[a]], #" bytes) \
  "subs x9, x9, #1\n b.ne 1b\n"                                                 \
  "2: lsr x9, %[groups], #3\n cbz x9, 4f\n"                                     \
  "3:\n"                                                                        \
  SPARKPILOT_EVEN rows("0", "[%[a]], #(8 * " bytes ")")                          \
  SPARKPILOT_ODD rows("1", "[%[a], #(-7 * " bytes ")]")                          \
  SPARKPILOT_EVEN rows("2", "[%[a], #(-6 * " bytes ")]")                         \
  SPARKPILOT_ODD rows("3", "[%[a], #(-5 * " bytes ")]")                          \
  SPARKPILOT_EVEN rows("4", "[%[a], #(-4 * " bytes ")]")                         \
  SPARKPILOT_ODD rows("5", "[%[a], #(-3 * " bytes ")]")                          \
  SPARKPILOT_EVEN rows("6", "[%[a], #(-2 * " bytes ")]")                         \
  SPARKPILOT_ODD rows("7", "[%[a], #(-1 * " bytes ")]")                          \
  "subs x9, x9, #1\n b.ne 3b\n"                                                 \
  "4:\n"
#define SPARKPILOT_BIAS                                                          \
  "mov x9, %[bias]\n"                                                           \
  "ld1r {%0.2d}, [x9], #8\n ld1r {%1.2d}, [x9], #8\n ld1r {%2.2d}, [x9], #8\n ld1r {%3.2d}, [x9]\n"
#define SPARKPILOT_COPY(s0, s1, s2, s3)                                          \
  "mov %" #s0 ".16b, %0.16b\n mov %" #s1 ".16b, %1.16b\n mov %" #s2 ".16b, %2.16b\n mov %" #s3 ".16b, %3.16b\n"
#define SPARKPILOT_SUMS(r) "=&w"(sums[r][0]), "=&w"(sums[r][1]), "=&w"(sums[r][2]), "=&w"(sums[r][3])
#define SPARKPILOT_IN [bias] "r"(bias), [groups] "r"(groups)
#define SPARKPILOT_CLOBBERED "x9", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory"

template <int kStride>
SPARKPILOT_BFMMLA HWY_INLINE void bfmmla_sums(const BFloat16* a, const BFloat16* b, int64_t groups, const float* bias,
                                              float32x4_t (&sums)[6][4]) {
  static_assert(kStride == 128);
  asm volatile(SPARKPILOT_BIAS
               SPARKPILOT_COPY(4, 5, 6, 7)
               SPARKPILOT_COPY(8, 9, 10, 11)
               SPARKPILOT_COPY(12, 13, 14, 15)
               SPARKPILOT_COPY(16, 17, 18, 19)
               SPARKPILOT_COPY(20, 21, 22, 23)
               SPARKPILOT_GROUPS(SPARKPILOT_TWELVE_ROWS, "96")
               : SPARKPILOT_SUMS(0), SPARKPILOT_SUMS(1), SPARKPILOT_SUMS(2), SPARKPILOT_SUMS(3), SPARKPILOT_SUMS(4),
                 SPARKPILOT_SUMS(5), [a] "+&r"(a), [b] "+&r"(b)
               : SPARKPILOT_IN
               : SPARKPILOT_CLOBBERED);
}

template <int kStride>
SPARKPILOT_BFMMLA HWY_INLINE void bfmmla_sums(const BFloat16* a, const BFloat16* b, int64_t groups, const float* bias,
                                              float32x4_t (&sums)[4][4]) {
  static_assert(kStride == 128);
  asm volatile(SPARKPILOT_BIAS
               SPARKPILOT_COPY(4, 5, 6, 7)
               SPARKPILOT_COPY(8, 9, 10, 11)
               SPARKPILOT_COPY(12, 13, 14, 15)
               SPARKPILOT_GROUPS(SPARKPILOT_EIGHT_ROWS, "64")
               : SPARKPILOT_SUMS(0), SPARKPILOT_SUMS(1), SPARKPILOT_SUMS(2), SPARKPILOT_SUMS(3), [a] "+&r"(a),
                 [b] "+&r"(b)
               : SPARKPILOT_IN
               : SPARKPILOT_CLOBBERED);
}

#undef SPARKPILOT_FOUR_ROWS
#undef SPARKPILOT_EIGHT_ROWS
#undef SPARKPILOT_TWELVE_ROWS
#undef SPARKPILOT_COLUMNS
#undef SPARKPILOT_EVEN
#undef SPARKPILOT_ODD
#undef SPARKPILOT_GROUPS
#undef SPARKPILOT_BIAS
#undef SPARKPILOT_COPY
#undef SPARKPILOT_SUMS
#undef SPARKPILOT_IN
#undef SPARKPILOT_CLOBBERED
// clang-format on

}  // namespace sparkpilot

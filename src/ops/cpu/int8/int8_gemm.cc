#include "ops/cpu/int8/int8_gemm.h"

#include <algorithm>

#include "hw/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8/int8_gemm.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/each-inl.h"
#include "ops/cpu/int8/int8_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using V = hn::Vec<Int8Sums>;
constexpr int64_t kBlock = Int8Matrix::kBlock, kGroup = Int8Matrix::kGroup;

[[maybe_unused]] HWY_INLINE int32_t four_bytes(const uint8_t* p) {
  int32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// A way to multiply a group of four bytes of a row by a block of weights. kParts: sums per block; kSums: as many as
// leave registers for the operands. kWhole: a sum is one element and may start with the value of `start`.
//
// The instructions are written explicitly because no Highway target has them.
#if HWY_ARCH_X86 && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
struct Dot {
  static constexpr int kParts = kInt8Vectors, kSums = HWY_TARGET == HWY_AVX3 ? 24 : 12;
  static bool here() { return HWY_TARGET == HWY_AVX3 ? cpu_features().avx512_vnni : cpu_features().avx_vnni; }
  using X = V;
  using W = V;
  static HWY_INLINE X load_x(const uint8_t* p) { return hn::Set(Int8Sums(), four_bytes(p)); }
  static HWY_INLINE W load_w(const int8_t* p, int part) {
    const hn::Repartition<int8_t, Int8Sums> d;
    return hn::BitCast(Int8Sums(), hn::LoadU(d, p + part * kInt8Lanes * kGroup));
  }
  static HWY_INLINE void step(V& sum, X x, W w) {
#if HWY_TARGET == HWY_AVX3
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(x.raw), "x"(w.raw));
#endif
  }
  static HWY_INLINE V sum(const V (&parts)[kParts], int i) { return parts[i]; }
  static constexpr bool kWhole = true, kSignedX = false;
};
#elif HWY_ARCH_ARM_A64
// To the assembler both are part of Armv8.2; the rest of the file needs its extensions to stay enabled.
#define SPARKPILOT_ARCH ".arch armv8.2-a+crypto+dotprod+i8mm\n\t"
template <bool kUnsigned>
struct ArmDot {
  static constexpr int kParts = kInt8Vectors, kSums = 24;
  static bool here() { return kUnsigned ? cpu_features().i8mm : cpu_features().dotprod; }
  using X = uint8x16_t;
  using W = int8x16_t;
  static HWY_INLINE X load_x(const uint8_t* p) {
    const X x = vreinterpretq_u8_s32(vdupq_n_s32(four_bytes(p)));
    return kUnsigned ? x : veorq_u8(x, vdupq_n_u8(0x80));
  }
  static HWY_INLINE W load_w(const int8_t* p, int part) { return vld1q_s8(p + part * 16); }
  static HWY_INLINE void step(V& sum, X x, W w) {
    if constexpr (kUnsigned) {
      asm(SPARKPILOT_ARCH "usdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(x), "w"(w));
    } else {
      asm(SPARKPILOT_ARCH "sdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(x), "w"(w));
    }
  }
  // Four adjacent groups of a row take one load; the instruction reads one of them.
  static HWY_INLINE X load_groups(const uint8_t* p) {
    return kUnsigned ? vld1q_u8(p) : veorq_u8(vld1q_u8(p), vdupq_n_u8(0x80));
  }
  template <int kAt>
  static HWY_INLINE void step_at(V& sum, X x, W w) {
    if constexpr (kUnsigned) {
      asm(SPARKPILOT_ARCH "sudot %0.4s, %1.16b, %2.4b[%c3]" : "+w"(sum.raw) : "w"(w), "w"(x), "i"(kAt));
    } else {
      asm(SPARKPILOT_ARCH "sdot %0.4s, %1.16b, %2.4b[%c3]" : "+w"(sum.raw) : "w"(w), "w"(x), "i"(kAt));
    }
  }
  static HWY_INLINE V sum(const V (&parts)[kParts], int i) { return parts[i]; }
  static constexpr bool kWhole = true, kSignedX = !kUnsigned;
};
#endif

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
// Converts bytes to 16 bits, so that products cannot overflow; a sum holds half a group, two adjacent ones are an
// element.
struct Wide {
  static constexpr int kParts = 2 * kInt8Vectors, kSums = HWY_TARGET == HWY_AVX3 ? 24 : kParts > 4 ? kParts : 8;
  using D16 = hn::Repartition<int16_t, Int8Sums>;
  using X = hn::Vec<D16>;
  using W = hn::Vec<D16>;
  static HWY_INLINE X load_x(const uint8_t* p) {
    const hn::Rebind<uint8_t, D16> bytes;
    const hn::Repartition<int32_t, decltype(bytes)> words;
    return hn::PromoteTo(D16(), hn::BitCast(bytes, hn::Set(words, four_bytes(p))));
  }
  static HWY_INLINE W load_w(const int8_t* p, int part) {
    const hn::Rebind<int8_t, D16> bytes;
    return hn::PromoteTo(D16(), hn::LoadU(bytes, p + part * 2 * kInt8Lanes));
  }
  static HWY_INLINE void step(V& sum, X x, W w) {
    V unused = hn::Zero(Int8Sums());
    sum = hn::ReorderWidenMulAccumulate(Int8Sums(), x, w, sum, unused);
  }
  static HWY_INLINE V sum(const V (&parts)[kParts], int i) {
    const Int8Sums d;
    return hn::Add(hn::ConcatEven(d, parts[2 * i + 1], parts[2 * i]), hn::ConcatOdd(d, parts[2 * i + 1], parts[2 * i]));
  }
  static constexpr bool kWhole = false, kSignedX = false;
};
#else
// One product at a time.
struct Wide {
  static constexpr int kParts = kInt8Vectors, kSums = kParts;
  using X = const uint8_t*;
  using W = const int8_t*;
  static HWY_INLINE X load_x(const uint8_t* p) { return p; }
  static HWY_INLINE W load_w(const int8_t* p, int part) { return p + part * kInt8Lanes * kGroup; }
  static HWY_INLINE void step(V& sum, X x, W w) {
    int32_t dots[kInt8Lanes];
    for (int i = 0; i < kInt8Lanes; ++i) {
      dots[i] = 0;
      for (int k = 0; k < kGroup; ++k) dots[i] += x[k] * w[i * kGroup + k];
    }
    sum = hn::Add(sum, hn::LoadU(Int8Sums(), dots));
  }
  static HWY_INLINE V sum(const V (&parts)[kParts], int i) { return parts[i]; }
  static constexpr bool kWhole = true, kSignedX = false;
};
#endif

struct Job {
  const uint8_t* const* runs;
  int64_t lda;
  const Int8Output& out;
  const int8_t* weights;
  const int32_t* column_sums;
  int64_t columns, run_count, run_groups, block_bytes;
};

// The initial value of vector i of a block. `from_signed`: the rows are read as i8, each 128 too low.
HWY_INLINE V start_of(const Job& job, bool from_signed, int64_t block, int i) {
  const Int8Sums d;
  const int64_t c = block * kBlock + i * kInt8Lanes;
  const V start = hn::LoadU(d, job.out.start + c);
  if (!from_signed) return start;
  return hn::Add(start, hn::ShiftLeft<7>(hn::LoadU(d, job.column_sums + c)));
}

// Writes a tile of finished sums [blocks, rows, kBlock] to the output.
template <typename T>
HWY_INLINE void store_as(const Job& job, const int32_t* sums, int64_t row, int64_t block, int rows, int blocks) {
  const Int8Output& out = job.out;
  for (int b = 0; b < blocks; ++b) {
    const int64_t c = (block + b) * kBlock, count = std::min(kBlock, job.columns - c);
    const Int8Block scale(out, c);
    T* y = static_cast<T*>(out.y) + row * out.stride + c;
    for (int r = 0; r < rows; ++r, sums += kBlock, y += out.stride) {
      V whole[kInt8Vectors];
      for (int i = 0; i < kInt8Vectors; ++i) whole[i] = hn::Load(Int8Sums(), sums + i * kInt8Lanes);
      scale.store(whole, y, count);
    }
  }
}

HWY_NOINLINE void store_tile(const Job& job, const int32_t* sums, int64_t row, int64_t block, int rows, int blocks) {
  switch (job.out.dtype) {
    case DType::u8: return store_as<uint8_t>(job, sums, row, block, rows, blocks);
    case DType::i8: return store_as<int8_t>(job, sums, row, block, rows, blocks);
    case DType::f32: return store_as<float>(job, sums, row, block, rows, blocks);
    default: return store_as<int32_t>(job, sums, row, block, rows, blocks);
  }
}

#if HWY_TARGET == HWY_AVX3
// Writes 64 bytes to the output: kBlocks blocks of each row in turn.
template <int kBlocks>
HWY_INLINE void store_packed(__m512i bytes, uint8_t* y, int64_t stride, int rows, int64_t count) {
  if constexpr (kBlocks >= 3) {
    if (count == 64) _mm512_storeu_si512(y, bytes);
    else _mm512_mask_storeu_epi8(y, (__mmask64{1} << count) - 1, bytes);
  } else if constexpr (kBlocks == 2) {
    const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
    _mm256_mask_storeu_epi8(y, mask, _mm512_castsi512_si256(bytes));
    if (rows > 1) _mm256_mask_storeu_epi8(y + stride, mask, _mm512_extracti64x4_epi64(bytes, 1));
  } else {
    const auto mask = static_cast<__mmask16>((1u << count) - 1);
    _mm_mask_storeu_epi8(y, mask, _mm512_castsi512_si128(bytes));
    if (rows > 1) _mm_mask_storeu_epi8(y + stride, mask, _mm512_extracti32x4_epi32(bytes, 1));
    if (rows > 2) _mm_mask_storeu_epi8(y + 2 * stride, mask, _mm512_extracti32x4_epi32(bytes, 2));
    if (rows > 3) _mm_mask_storeu_epi8(y + 3 * stride, mask, _mm512_extracti32x4_epi32(bytes, 3));
  }
}

// Converts a tile of sums to bytes without storing the sums in memory: four vectors at a time.
template <class P, bool kSimple, int kRows, int kBlocks>
HWY_INLINE void pack_tile(const Job& job, const V (&sums)[kRows][kBlocks][P::kParts], int64_t row, int64_t block) {
  constexpr int kStep = kBlocks == 1 ? 4 : kBlocks == 2 ? 2 : 1;  // rows per 64 bytes
  const Int8Output& out = job.out;
  const int64_t c = block * kBlock, count = std::min(kBlocks * kBlock, job.columns - c);
  const Int8Pack pack(out);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  uint8_t* y = static_cast<uint8_t*>(out.y) + row * out.stride + c;
  each<(kRows + kStep - 1) / kStep>([&]<int step>() __attribute__((always_inline)) {
    constexpr int r = step * kStep;
    __m512i part[4];
    each<4>([&]<int i>() __attribute__((always_inline)) {
      constexpr int at = std::min(r + i / kBlocks, kRows - 1), b = i % kBlocks;
      V sum = P::sum(sums[at][b], 0);
      if constexpr (!P::kWhole) sum = hn::Add(sum, start_of(job, P::kSignedX, block + b, 0));
      part[i] = Int8Pack::scale<kSimple>(sum.raw, out.multiplier + c + b * kBlock, out.shift + c + b * kBlock);
    });
    const __m512i bytes = _mm512_permutexvar_epi32(order, pack(part[0], part[1], part[2], part[3]));
    store_packed<kBlocks>(bytes, y + r * out.stride, out.stride, kRows - r, count);
  });
}
#endif

template <class P, int kRows, int kBlocks>
HWY_INLINE void tile(const Job& job, int64_t row, int64_t block) {
  const Int8Sums d;
  const int64_t run_groups = job.run_groups, lda = job.lda, block_bytes = job.block_bytes;
  const int8_t* weights = job.weights + block * block_bytes;
  V sums[kRows][kBlocks][P::kParts];
  each<kBlocks>([&]<int b>() __attribute__((always_inline)) {
    each<P::kParts>([&]<int i>() __attribute__((always_inline)) {
      const V start = P::kWhole ? start_of(job, P::kSignedX, block + b, i) : hn::Zero(d);
      each<kRows>([&]<int r>() __attribute__((always_inline)) { sums[r][b][i] = start; });
    });
  });
  for (int64_t run = 0; run < job.run_count; ++run) {
    const uint8_t* a = job.runs[run] + row * lda;
    int64_t g = 0;
    if constexpr (requires(const uint8_t* p) { P::load_groups(p); }) {
      for (; g + 4 <= run_groups; g += 4, weights += 4 * kBlock * kGroup, a += 4 * kGroup) {
        typename P::X x[kRows];
        each<kRows>([&]<int r>() __attribute__((always_inline)) { x[r] = P::load_groups(a + r * lda); });
        each<4>([&]<int at>() __attribute__((always_inline)) {
          const int8_t* from = weights + at * kBlock * kGroup;
          each<kBlocks>([&]<int b>() __attribute__((always_inline)) {
            each<P::kParts>([&]<int i>() __attribute__((always_inline)) {
              const typename P::W w = P::load_w(from + b * block_bytes, i);
              each<kRows>([&]<int r>()
                              __attribute__((always_inline)) { P::template step_at<at>(sums[r][b][i], x[r], w); });
            });
          });
        });
      }
    }
    for (; g < run_groups; ++g, weights += kBlock * kGroup, a += kGroup) {
      typename P::W w[kBlocks][P::kParts];
      each<kBlocks>([&]<int b>() __attribute__((always_inline)) {
        each<P::kParts>([&]<int i>()
                            __attribute__((always_inline)) { w[b][i] = P::load_w(weights + b * block_bytes, i); });
      });
      each<kRows>([&]<int r>() __attribute__((always_inline)) {
        const typename P::X x = P::load_x(a + r * lda);
        each<kBlocks>([&]<int b>() __attribute__((always_inline)) {
          each<P::kParts>([&]<int i>() __attribute__((always_inline)) { P::step(sums[r][b][i], x, w[b][i]); });
        });
      });
    }
  }
#if HWY_TARGET == HWY_AVX3
  if (job.out.dtype == DType::u8 || job.out.dtype == DType::i8) {
    if (job.out.simple) pack_tile<P, true>(job, sums, row, block);
    else pack_tile<P, false>(job, sums, row, block);
    return;
  }
#endif
  HWY_ALIGN int32_t finished[kRows * kBlocks * kBlock];
  each<kBlocks>([&]<int b>() __attribute__((always_inline)) {
    each<kRows>([&]<int r>() __attribute__((always_inline)) {
      each<kInt8Vectors>([&]<int i>() __attribute__((always_inline)) {
        V sum = P::sum(sums[r][b], i);
        if constexpr (!P::kWhole) sum = hn::Add(sum, start_of(job, P::kSignedX, block + b, i));
        hn::Store(sum, d, finished + (b * kRows + r) * kBlock + i * kInt8Lanes);
      });
    });
  });
  store_tile(job, finished, row, block, kRows, kBlocks);
}

template <class P, int kRows, int kBlocks>
HWY_NOINLINE void tiles_of(const Job& job, int64_t row, int64_t count, int64_t block) {
  for (int64_t i = 0; i < count; ++i) tile<P, kRows, kBlocks>(job, row + i * kRows, block);
}

// Tiles of `height` rows, at most kRows.
template <class P, int kRows, int kBlocks>
void tiles_of_height(const Job& job, int64_t height, int64_t row, int64_t count, int64_t block) {
  if (height == kRows) tiles_of<P, kRows, kBlocks>(job, row, count, block);
  else if constexpr (kRows > 1) tiles_of_height<P, kRows - 1, kBlocks>(job, height, row, count, block);
}

// All rows of some blocks, in tiles of at most kRows rows. If tiles are low, they have two adjacent heights; else the
// last tile begins earlier if it would go past the end, or is lower.
template <class P, int kRows, int kBlocks>
void rows_of(const Job& job, int64_t first, int64_t last, int64_t block) {
  const int64_t rows = last - first;
  if constexpr (kBlocks >= 3) {
    const int64_t tiles = (rows + kRows - 1) / kRows, low = rows / std::max<int64_t>(tiles, 1),
                  high = rows - low * tiles;
    if (high > 0) tiles_of_height<P, kRows, kBlocks>(job, low + 1, first, high, block);
    tiles_of_height<P, kRows, kBlocks>(job, low, first + high * (low + 1), tiles - high, block);
  } else if (rows < kRows) {
    if constexpr (kRows > 1) rows_of<P, kRows / 2, kBlocks>(job, first, last, block);
  } else {
    tiles_of<P, kRows, kBlocks>(job, first, rows / kRows, block);
    if (rows % kRows) tiles_of<P, kRows, kBlocks>(job, last - kRows, 1, block);
  }
}

template <class P>
void product(const Job& job, const Int8Range& range) {
  constexpr int kFit = P::kSums / P::kParts, kMax = kFit >= 24 ? 4 : kFit >= 12 ? 2 : 1;  // adjacent blocks
  const auto go = [&]<int kBlocks>(int64_t block) {
    rows_of<P, std::max(1, P::kSums / (kBlocks * P::kParts)), kBlocks>(job, range.first_row, range.last_row, block);
  };
  int64_t block = range.first_block;
  while (block < range.last_block) {
    const int64_t left = range.last_block - block, best = left == 5 || left == 9 ? 3 : 4;
    const int64_t blocks = std::min<int64_t>({left, best, kMax});
    if (kMax >= 4 && blocks == 4) go.template operator()<std::min(4, kMax)>(block);
    else if (kMax >= 3 && blocks == 3) go.template operator()<std::min(3, kMax)>(block);
    else if (kMax >= 2 && blocks == 2) go.template operator()<std::min(2, kMax)>(block);
    else go.template operator()<1>(block);
    block += blocks;
  }
}

void multiply_impl(const Job& job, const Int8Range& range, [[maybe_unused]] bool fast) {
#if HWY_ARCH_X86 && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
  if (fast && Dot::here()) return product<Dot>(job, range);
#elif HWY_ARCH_ARM_A64
  if (fast && ArmDot<true>::here()) return product<ArmDot<true> >(job, range);
  if (fast && ArmDot<false>::here()) return product<ArmDot<false> >(job, range);
#endif
  product<Wide>(job, range);
}

void multiply_target(const uint8_t* const* runs, int64_t lda, const Int8Matrix& b, const Int8Output& out,
                     const Int8Range& range, bool fast) {
  const int64_t block_bytes = b.groups() * kBlock * kGroup;
  multiply_impl({runs, lda, out, b.data.data<int8_t>().data(), b.sums.data<int32_t>().data(), b.columns, b.runs(),
                 b.run_groups(), block_bytes},
                range, fast);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(multiply_target);

void multiply_int8(const uint8_t* const* runs, int64_t lda, const Int8Matrix& b, const Int8Output& out,
                   const Int8Range& range, bool fast) {
  HWY_DYNAMIC_DISPATCH(multiply_target)(runs, lda, b, out, range, fast);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

#include "ops/cpu/int8_gemm.h"

#include <algorithm>

#include "hw/cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8_gemm.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/int8_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using V = hn::Vec<Int8Sums>;
constexpr int64_t kBlock = Int8Matrix::kBlock, kGroup = Int8Matrix::kGroup;

HWY_INLINE int32_t four_bytes(const uint8_t* p) {
  int32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// A way to multiply a group of four bytes of a row by a block of weights. kParts sums belong to a block; kSums are as
// many as leave registers for the operands.
//
// The instructions are written out because no target of Highway's has them.
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
  static constexpr bool kSignedX = false;
};
#elif HWY_ARCH_ARM_A64
// To the assembler both belong to Armv8.2; what the rest of the file needs stays allowed.
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
  static HWY_INLINE V sum(const V (&parts)[kParts], int i) { return parts[i]; }
  static constexpr bool kSignedX = !kUnsigned;
};
#endif

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
// Bytes as 16-bit numbers, whose products cannot overflow; a sum holds half a group, two neighbours are an element.
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
  static constexpr bool kSignedX = false;
};
#else
// One product after the other.
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
  static constexpr bool kSignedX = false;
};
#endif

struct Job {
  const uint8_t* const* runs;
  int64_t lda;
  const Int8Matrix& b;
  const Int8Output& out;
};

// Puts a tile of sums [blocks, rows, kBlock] into the output. `from_signed`: the rows were read as i8, each 128 too
// low.
template <typename T>
HWY_INLINE void store_as(const Job& job, const int32_t* sums, bool from_signed, int64_t row, int64_t block, int rows,
                         int blocks) {
  const Int8Sums d;
  const Int8Output& out = job.out;
  for (int b = 0; b < blocks; ++b) {
    const int64_t c = (block + b) * kBlock, count = std::min(kBlock, job.b.columns - c);
    V start[kInt8Vectors];
    for (int i = 0; i < kInt8Vectors; ++i) {
      start[i] = hn::LoadU(d, out.start + c + i * kInt8Lanes);
      if (!from_signed) continue;
      const V column = hn::LoadU(d, job.b.sums.data<int32_t>().data() + c + i * kInt8Lanes);
      start[i] = hn::Add(start[i], hn::ShiftLeft<7>(column));
    }
    const Int8Block scale(out, c);
    T* y = static_cast<T*>(out.y) + row * out.stride + c;
    for (int r = 0; r < rows; ++r, sums += kBlock, y += out.stride) {
      V whole[kInt8Vectors];
      for (int i = 0; i < kInt8Vectors; ++i) whole[i] = hn::Add(hn::Load(d, sums + i * kInt8Lanes), start[i]);
      scale.store(whole, y, count);
    }
  }
}

HWY_NOINLINE void store_tile(const Job& job, const int32_t* sums, bool from_signed, int64_t row, int64_t block,
                             int rows, int blocks) {
  switch (job.out.dtype) {
    case DType::u8: return store_as<uint8_t>(job, sums, from_signed, row, block, rows, blocks);
    case DType::i8: return store_as<int8_t>(job, sums, from_signed, row, block, rows, blocks);
    case DType::f32: return store_as<float>(job, sums, from_signed, row, block, rows, blocks);
    default: return store_as<int32_t>(job, sums, from_signed, row, block, rows, blocks);
  }
}

template <class P, int kRows, int kBlocks>
HWY_NOINLINE void tile(const Job& job, int64_t row, int64_t block) {
  const Int8Sums d;
  const int64_t groups = job.b.groups(), block_bytes = groups * kBlock * kGroup;
  const int8_t* weights = job.b.data.template data<int8_t>().data() + block * block_bytes;
  const int64_t run_groups = job.b.run_groups();
  const int64_t lda = job.lda;
  V sums[kRows][kBlocks][P::kParts];
  HWY_UNROLL(24)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (int b = 0; b < kBlocks; ++b) {
      HWY_UNROLL(8)
      for (int i = 0; i < P::kParts; ++i) sums[r][b][i] = hn::Zero(d);
    }
  }
  for (int64_t run = 0; run < job.b.runs(); ++run) {
    const uint8_t* a = job.runs[run] + row * lda;
    for (int64_t g = 0; g < run_groups; ++g, weights += kBlock * kGroup, a += kGroup) {
      typename P::W w[kBlocks][P::kParts];
      HWY_UNROLL(8)
      for (int b = 0; b < kBlocks; ++b) {
        HWY_UNROLL(8)
        for (int i = 0; i < P::kParts; ++i) w[b][i] = P::load_w(weights + b * block_bytes, i);
      }
      HWY_UNROLL(24)
      for (int r = 0; r < kRows; ++r) {
        const typename P::X x = P::load_x(a + r * lda);
        HWY_UNROLL(8)
        for (int b = 0; b < kBlocks; ++b) {
          HWY_UNROLL(8)
          for (int i = 0; i < P::kParts; ++i) P::step(sums[r][b][i], x, w[b][i]);
        }
      }
    }
  }
  HWY_ALIGN int32_t finished[kRows * kBlocks * kBlock];
  HWY_UNROLL(8)
  for (int b = 0; b < kBlocks; ++b) {
    HWY_UNROLL(24)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(16)
      for (int i = 0; i < kInt8Vectors; ++i) {
        hn::Store(P::sum(sums[r][b], i), d, finished + (b * kRows + r) * kBlock + i * kInt8Lanes);
      }
    }
  }
  store_tile(job, finished, P::kSignedX, row, block, kRows, kBlocks);
}

// All rows of some blocks, in tiles of kRows rows; the last tile begins earlier where it would overhang, or is lower.
template <class P, int kRows, int kBlocks>
void rows_of(const Job& job, int64_t first, int64_t last, int64_t block) {
  if (last - first < kRows) {
    if constexpr (kRows > 1) rows_of<P, kRows / 2, kBlocks>(job, first, last, block);
    return;
  }
  for (int64_t row = first; row < last; row += kRows) tile<P, kRows, kBlocks>(job, std::min(row, last - kRows), block);
}

template <class P>
void product(const Job& job, const Int8Range& range) {
  constexpr int kFit = P::kSums / P::kParts, kMost = kFit >= 24 ? 3 : kFit >= 12 ? 2 : 1;  // blocks side by side
  const auto go = [&]<int kBlocks>(int64_t block) {
    rows_of<P, std::max(1, P::kSums / (kBlocks * P::kParts)), kBlocks>(job, range.first_row, range.last_row, block);
  };
  int64_t block = range.first_block;
  while (block < range.last_block) {
    const int64_t left = range.last_block - block, most = left % 2 == 1 && left >= 3 ? 3 : left >= 2 ? 2 : 1;
    const int64_t blocks = std::min<int64_t>(most, kMost);
    if (kMost >= 3 && blocks == 3) go.template operator()<std::min(3, kMost)>(block);
    else if (kMost >= 2 && blocks == 2) go.template operator()<std::min(2, kMost)>(block);
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
  multiply_impl({runs, lda, b, out}, range, fast);
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

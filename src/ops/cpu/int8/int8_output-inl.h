// Applies Int8Output to a block of 16 sums in vectors. Include it inside a foreach_target file.
#if defined(SPARKPILOT_INT8_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_INT8_OUTPUT_INL_H_
#undef SPARKPILOT_INT8_OUTPUT_INL_H_
#else
#define SPARKPILOT_INT8_OUTPUT_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"
#include "ops/cpu/int8/int8_matrix.h"
#include "ops/cpu/int8/int8_output.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Int8Sums = hn::CappedTag<int32_t, Int8Matrix::kBlock>;
using Int8Reals = hn::Rebind<float, Int8Sums>;
constexpr int kInt8Lanes =
    static_cast<int>(HWY_LANES(int32_t) < Int8Matrix::kBlock ? HWY_LANES(int32_t) : Int8Matrix::kBlock);
constexpr int kInt8Vectors = static_cast<int>(Int8Matrix::kBlock) / kInt8Lanes;  // per block

// Rounds numbers that fit in i32 to nearest, halves to even.
HWY_INLINE hn::Vec<Int8Sums> round_in_range(hn::Vec<Int8Reals> v) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<Int8Sums>{_mm512_cvtps_epi32(v.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<Int8Sums>{_mm256_cvtps_epi32(v.raw)};
#else
  return hn::NearestInt(v);
#endif
}

// Numbers that fit in T, of a whole block.
template <typename T>
HWY_INLINE void store_bytes(const hn::Vec<Int8Sums> (&v)[kInt8Vectors], T* to) {
#if HWY_TARGET == HWY_AVX3
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v[0].raw));
#elif HWY_TARGET == HWY_AVX2
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[0].raw, v[1].raw), 0xD8);
  const __m128i first = _mm256_castsi256_si128(words), second = _mm256_extracti128_si256(words, 1);
  const __m128i bytes = std::is_signed_v<T> ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
#else
  const hn::Rebind<T, Int8Sums> d;
  for (int i = 0; i < kInt8Vectors; ++i) hn::StoreU(hn::DemoteTo(d, v[i]), d, to + i * kInt8Lanes);
#endif
}

// The parameters of an Int8Output for one block of columns, in registers: the compiler must assume that a store to
// bytes changes them in memory.
struct Int8Block {
  hn::Vec<Int8Reals> multiplier[kInt8Vectors], shift[kInt8Vectors], low, high;
  hn::Vec<Int8Sums> zero;

  HWY_INLINE Int8Block(const Int8Output& out, int64_t c) {  // `c`: the first column
    const Int8Reals df;
    for (int i = 0; i < kInt8Vectors; ++i) {
      multiplier[i] = out.multiplier ? hn::LoadU(df, out.multiplier + c + i * kInt8Lanes) : hn::Zero(df);
      shift[i] = out.shift ? hn::LoadU(df, out.shift + c + i * kInt8Lanes) : hn::Zero(df);
    }
    low = hn::Set(df, out.low);
    high = hn::Set(df, out.high);
    zero = hn::Set(Int8Sums(), out.zero);
  }

  // Stores `count` (at most a block) of the elements; `sums` already include `start`.
  template <typename T>
  HWY_INLINE void store(const hn::Vec<Int8Sums> (&sums)[kInt8Vectors], T* y, int64_t count) const {
    if (count == Int8Matrix::kBlock) return store_all(sums, y);
    T part[Int8Matrix::kBlock];
    store_all(sums, part);
    std::memcpy(y, part, static_cast<size_t>(count) * sizeof(T));
  }

 private:
  template <typename T>
  HWY_INLINE void store_all(const hn::Vec<Int8Sums> (&sums)[kInt8Vectors], T* y) const {
    const Int8Reals df;
    [[maybe_unused]] hn::Vec<Int8Sums> rounded[kInt8Vectors];
    HWY_UNROLL(16)
    for (int i = 0; i < kInt8Vectors; ++i) {
      if constexpr (std::is_same_v<T, int32_t>) {
        hn::StoreU(sums[i], Int8Sums(), y + i * kInt8Lanes);
        continue;
      }
      const auto v = hn::MulAdd(hn::ConvertTo(df, sums[i]), multiplier[i], shift[i]);
      if constexpr (std::is_same_v<T, float>) hn::StoreU(v, df, y + i * kInt8Lanes);
      if constexpr (sizeof(T) == 1) {
        rounded[i] = hn::Add(round_in_range(hn::Min(hn::Max(v, low), high)), zero);
      }
    }
    if constexpr (sizeof(T) == 1) store_bytes(rounded, y);
  }
};

#if HWY_TARGET == HWY_AVX3
// Packs 64 sums at once into bytes. i8 is computed as u8 with its highest bit flipped.
struct Int8Pack {
  __m512i zero, low, high, flip;
  bool plain;  // u8 with its whole range

  HWY_INLINE explicit Int8Pack(const Int8Output& out) {
    const int origin = out.dtype == DType::i8 ? 128 : 0, offset = out.zero + origin;
    const int lowest = static_cast<int>(out.low) + offset, highest = static_cast<int>(out.high) + offset;
    zero = _mm512_set1_epi16(static_cast<int16_t>(offset));
    low = _mm512_set1_epi8(static_cast<char>(lowest));
    high = _mm512_set1_epi8(static_cast<char>(highest));
    flip = _mm512_set1_epi8(static_cast<char>(origin));
    plain = origin == 0 && lowest == 0 && highest == 255;
  }

  // Scales 16 sums that include `start`. Values above any byte stay so, instead of wrapping around.
  template <bool kSimple>
  static HWY_INLINE __m512i scale(__m512i sum, const float* multiplier, const float* shift) {
    const __m512 v = _mm512_cvtepi32_ps(sum);
    if constexpr (kSimple) return _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_loadu_ps(multiplier)));
    const __m512 scaled = _mm512_fmadd_ps(v, _mm512_loadu_ps(multiplier), _mm512_loadu_ps(shift));
    return _mm512_cvtps_epi32(_mm512_min_ps(scaled, _mm512_set1_ps(32767)));
  }
  // Packs scaled numbers; each 16 bytes of the result are four of a, four of b, of c and of d.
  HWY_INLINE __m512i operator()(__m512i a, __m512i b, __m512i c, __m512i d) const {
    const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero);
    const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero);
    const __m512i bytes = _mm512_packus_epi16(ab, cd);
    if (plain) return bytes;
    return _mm512_xor_si512(_mm512_min_epu8(_mm512_max_epu8(bytes, low), high), flip);
  }
};
#endif

}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#endif  // SPARKPILOT_INT8_OUTPUT_INL_H_

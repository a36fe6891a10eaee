#include "ops/cpu/int8/int8_depthwise.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "hw/cpu.h"
#include "ops/cpu/int8/int8_windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8/int8_depthwise.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/each-inl.h"
#include "ops/cpu/int8/int8_output-inl.h"

#ifndef SPARKPILOT_INT8_DEPTHWISE_ONCE
#define SPARKPILOT_INT8_DEPTHWISE_ONCE
namespace sparkpilot {
namespace {

constexpr int64_t kDotStep = 64, kStep = Int8Matrix::kBlock, kAlign = 64;
constexpr int64_t kGroup = 4;  // kernel rows in a dot product

// One output row, or two: the padded image rows under each row of the kernel, and those under the next output row.
struct RowJob {
  const Int8Depthwise& f;
  const Int8Output& out;
  const uint8_t* rows[kInt8DepthwiseTaps + kGroup];
  int64_t columns[kInt8DepthwiseTaps];  // byte offset of the pixel under each column of the kernel
};

int64_t word_rows(const KernelWindow& w) { return (w.kernel[1] + 1) / 2 * 2; }
int64_t groups_of(const KernelWindow& w) { return (w.kernel[1] + kGroup - 1) / kGroup; }
// The number of pixels of the padded image under an output row.
int64_t pixels_under(const KernelWindow& w) {
  return (w.out[2] - 1) * w.stride[2] + (w.kernel[2] - 1) * w.dilation[2] + 1;
}

}  // namespace
}  // namespace sparkpilot
#endif  // SPARKPILOT_INT8_DEPTHWISE_ONCE

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using V = hn::Vec<Int8Sums>;

#if HWY_TARGET == HWY_AVX3
// 64 sums or operands, as members and not as an array, which the compiler would keep in memory. Their order is the one
// that unpacking bytes, then words, of four rows gives (dot_channel below); packing the results reverses it.
struct Dots {
  __m512i a, b, c, d;

  // Loads into a register; the compiler would otherwise load at each use.
  static HWY_INLINE __m512i once(const void* from) {
    __m512i v = _mm512_loadu_si512(from);
    asm("" : "+v"(v));
    return v;
  }
  static HWY_INLINE Dots load(const void* from) {
    const auto* p = static_cast<const uint8_t*>(from);
    return {once(p), once(p + 64), once(p + 128), once(p + 192)};
  }
  // Interleaves 64 elements of four rows.
  static HWY_INLINE Dots interleave(const uint8_t* const* rows, int64_t at) {
    const __m512i r0 = once(rows[0] + at), r1 = once(rows[1] + at), r2 = once(rows[2] + at), r3 = once(rows[3] + at);
    const __m512i low01 = _mm512_unpacklo_epi8(r0, r1), high01 = _mm512_unpackhi_epi8(r0, r1);
    const __m512i low23 = _mm512_unpacklo_epi8(r2, r3), high23 = _mm512_unpackhi_epi8(r2, r3);
    return {_mm512_unpacklo_epi16(low01, low23), _mm512_unpackhi_epi16(low01, low23),
            _mm512_unpacklo_epi16(high01, high23), _mm512_unpackhi_epi16(high01, high23)};
  }
  HWY_INLINE void add(const Dots& x, const Dots& w) {
    add(a, x.a, w.a);
    add(b, x.b, w.b);
    add(c, x.c, w.c);
    add(d, x.d, w.d);
  }

 private:
  static HWY_INLINE void add(__m512i& sum, __m512i x, __m512i w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
  }
};

// What the vectors of a row's dots share.
struct DotStep {
  const RowJob& job;
  const Int8Pack& pack;
  uint8_t* const* y;     // of kRows rows
  int64_t next, y_next;  // bytes to the vector with the next elements of the same channels, in scratch and output
  int64_t less;          // by how much fewer bytes remain in the output there than here
  int64_t groups, columns;
  bool simple;
  const int8_t* weights;
  const int32_t* start;
  const float *multiplier, *shift;

  HWY_INLINE void store(const Dots& sums, int64_t row, int64_t at, int64_t bytes) const {
    const __m512i bytes64 = simple ? finish<true>(sums) : finish<false>(sums);
    if (bytes >= kDotStep) _mm512_storeu_si512(y[row] + at, bytes64);
    else _mm512_mask_storeu_epi8(y[row] + at, (__mmask64{1} << bytes) - 1, bytes64);
  }
  template <bool kSimple>
  HWY_INLINE __m512i finish(const Dots& s) const {
    return pack(Int8Pack::scale<kSimple>(s.a, multiplier, shift),
                Int8Pack::scale<kSimple>(s.b, multiplier + 16, shift + 16),
                Int8Pack::scale<kSimple>(s.c, multiplier + 32, shift + 32),
                Int8Pack::scale<kSimple>(s.d, multiplier + 48, shift + 48));
  }
};

// One or two vectors of kRows rows; two share the loads of the weights. `bytes` remain in the output from y_at on.
template <int kRows, bool kTwo>
HWY_INLINE void dots(const DotStep& step, int64_t at, int64_t y_at, int64_t bytes) {
  const Dots start = Dots::load(step.start);
  Dots s0 = start, s1 = start, t0 = start, t1 = start;  // s of the first row, t of the second
  const int8_t* weights = step.weights;
  const int64_t row_bytes = step.groups * step.columns * kGroup * kDotStep;
  for (int64_t g = 0; g < step.groups; ++g) {
    for (int64_t k = 0; k < step.columns; ++k, weights += kGroup * kDotStep) {
      const int64_t from = step.job.columns[k] + at;
      const Dots x0 = Dots::interleave(step.job.rows + g * kGroup, from);
      Dots x1;
      if constexpr (kTwo) x1 = Dots::interleave(step.job.rows + g * kGroup, from + step.next);
      const Dots ws = Dots::load(weights);
      s0.add(x0, ws);
      if constexpr (kTwo) s1.add(x1, ws);
      if constexpr (kRows == 2) {
        const Dots wt = Dots::load(weights + row_bytes);
        t0.add(x0, wt);
        if constexpr (kTwo) t1.add(x1, wt);
      }
    }
  }
  step.store(s0, 0, y_at, bytes);
  if constexpr (kTwo) step.store(s1, 0, y_at + step.y_next, bytes - step.less);
  if constexpr (kRows == 2) step.store(t0, 1, y_at, bytes);
  if constexpr (kRows == 2 && kTwo) step.store(t1, 1, y_at + step.y_next, bytes - step.less);
}

template <int kRows>
void rows_by_dots(const RowJob& job, uint8_t* const* y) {
  const Int8Depthwise& f = job.f;
  const KernelWindow& w = f.shape.window;
  const Int8Pack pack(job.out);
  const int64_t channels = f.shape.out_channels, cycle = f.steps * kDotStep;
  const bool flat = f.pixel == channels;
  const int64_t bytes = flat ? w.out[2] * channels : channels;
  DotStep step{job,
               pack,
               y,
               flat ? cycle : f.pixel,
               flat ? cycle : channels,
               flat ? cycle : 0,
               groups_of(w),
               w.kernel[2],
               job.out.simple,
               f.weights.data<int8_t>().data(),
               f.start.data<int32_t>().data(),
               f.multiplier.data<float>().data(),
               f.shift.data<float>().data()};
  for (int64_t s = 0; s < f.steps; ++s) {
    int64_t at = s * kDotStep, y_at = at, left = bytes - at, count = flat ? (left + cycle - 1) / cycle : w.out[2];
    for (; count >= 2; count -= 2, at += 2 * step.next, y_at += 2 * step.y_next, left -= 2 * step.less) {
      dots<kRows, true>(step, at, y_at, left);
    }
    if (count == 1) dots<kRows, false>(step, at, y_at, left);
    step.weights += (f.pairs ? 2 : 1) * step.groups * step.columns * kGroup * kDotStep;
    step.start += kDotStep;
    step.multiplier += kDotStep;
    step.shift += kDotStep;
  }
}
#endif

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define SPARKPILOT_DEPTHWISE_WORDS 1
// 16 channels, two kernel rows at a time: in pairs of 16 bits, whose products are added to 32 bits, which cannot
// overflow.
class Taps {
 public:
  static constexpr int kPixels = 4;  // of a tile, which reads each pixel of the image once

  explicit Taps(const RowJob& job)
      : columns_(job.f.shape.window.kernel[2]),
        pixel_(job.f.pixel),
        count_(word_rows(job.f.shape.window) / 2 * columns_),
        step_(2 * job.f.steps * kStep),
        weights_(job.f.weights.data<int16_t>().data()) {
    for (int64_t t = 0; t < count_; ++t) {
      upper_[t] = job.rows[t / columns_ * 2] + job.columns[t % columns_];
      lower_[t] = job.rows[t / columns_ * 2 + 1] + job.columns[t % columns_];
    }
  }
  // What the image under the pixel at `at` adds to the sums of channels from c on.
  HWY_INLINE void add(int64_t at, int64_t c, V (&sums)[kInt8Vectors]) const {
    const int16_t* weights = weights_ + 2 * c;
    for (int64_t t = 0; t < count_; ++t, weights += step_) {
      const Words x(upper_[t] + at, lower_[t] + at);
      x.add_products(weights, sums);
    }
  }
  // The same for a tile of adjacent pixels, and a kernel of kColumns without dilation.
  template <int kColumns, int kStride>
  HWY_INLINE void add_tile(int64_t at, int64_t c, V (&sums)[kPixels][kInt8Vectors]) const {
    const int16_t* weights = weights_ + 2 * c;
    for (int64_t t = 0; t < count_; t += kColumns, weights += kColumns * step_) {
      const uint8_t *upper = upper_[t] + at, *lower = lower_[t] + at;
      each<(kPixels - 1) * kStride + kColumns>([&]<int i>() __attribute__((always_inline)) {
        const Words x(upper + i * pixel_, lower + i * pixel_);
        each<kColumns>([&]<int k>() __attribute__((always_inline)) {
          constexpr int kTo = (i - k) / kStride;
          if constexpr (i >= k && (i - k) % kStride == 0 && kTo < kPixels) {
            x.add_products(weights + k * step_, sums[kTo]);
          }
        });
      });
    }
  }

 private:
  // 16 channels of two rows.
  struct Words {
    HWY_INLINE Words(const uint8_t* upper, const uint8_t* lower) {
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(upper));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lower));
      const __m128i first = _mm_unpacklo_epi8(a, b), second = _mm_unpackhi_epi8(a, b);
#if HWY_TARGET == HWY_AVX2
      x[0] = _mm256_cvtepu8_epi16(first);
      x[1] = _mm256_cvtepu8_epi16(second);
#else
      x[0] = _mm512_cvtepu8_epi16(_mm256_set_m128i(second, first));
#endif
    }
    HWY_INLINE void add_products(const int16_t* weights, V (&sums)[kInt8Vectors]) const {
#if HWY_TARGET == HWY_AVX2
      const auto* w = reinterpret_cast<const __m256i*>(weights);
      sums[0].raw = _mm256_add_epi32(sums[0].raw, _mm256_madd_epi16(x[0], _mm256_loadu_si256(w)));
      sums[1].raw = _mm256_add_epi32(sums[1].raw, _mm256_madd_epi16(x[1], _mm256_loadu_si256(w + 1)));
#else
      sums[0].raw = _mm512_add_epi32(sums[0].raw, _mm512_madd_epi16(x[0], _mm512_loadu_si512(weights)));
#endif
    }
    decltype(V::raw) x[kInt8Vectors];
  };

  int64_t columns_, pixel_, count_, step_;
  const int16_t* weights_;
  const uint8_t *upper_[kInt8DepthwiseTaps], *lower_[kInt8DepthwiseTaps];
};
#else
#define SPARKPILOT_DEPTHWISE_WORDS 0
// 16 channels, one tap at a time: products fit in 16 bits, sums do not.
class Taps {
 public:
  explicit Taps(const RowJob& job) : count_(job.f.shape.window.kernel_size()), places_(job.f.steps * kStep) {
    const int64_t columns = job.f.shape.window.kernel[2];
    for (int64_t t = 0; t < count_; ++t) under_[t] = job.rows[t / columns] + job.columns[t % columns];
    weights_ = job.f.weights.data<int8_t>().data();
  }
  // What the pixel at `at` adds to the sums of channels from c on.
  HWY_INLINE void add(int64_t at, int64_t c, V (&sums)[kInt8Vectors]) const {
    const Int8Sums di;
    const hn::Rebind<int16_t, Int8Sums> d16;
    const hn::Rebind<uint8_t, Int8Sums> dx;
    const hn::Rebind<int8_t, Int8Sums> dw;
    const int8_t* weights = weights_ + c;
    for (int64_t t = 0; t < count_; ++t, weights += places_) {
      for (int i = 0; i < kInt8Vectors; ++i) {
        const auto a = hn::PromoteTo(d16, hn::LoadU(dx, under_[t] + at + i * kInt8Lanes));
        const auto b = hn::PromoteTo(d16, hn::LoadU(dw, weights + i * kInt8Lanes));
        sums[i] = hn::Add(sums[i], hn::PromoteTo(di, hn::Mul(a, b)));
      }
    }
  }

 private:
  int64_t count_, places_;
  const uint8_t* under_[kInt8DepthwiseTaps];
  const int8_t* weights_;
};
#endif

#if SPARKPILOT_DEPTHWISE_WORDS
// Computes as many tiles as fit in `pixels`; returns the number of pixels.
template <int kColumns, int kStride, typename T>
HWY_NOINLINE int64_t tiles_by_products(const RowJob& job, const Taps& taps, const Int8Block& block,
                                       const int32_t* start, int64_t c, int64_t pixels, T* to) {
  constexpr int kPixels = Taps::kPixels;
  const int64_t channels = job.f.shape.out_channels, count = std::min(channels - c, kStep);
  int64_t p = 0;
  for (int64_t at = c; p + kPixels <= pixels; p += kPixels, at += kPixels * kStride * job.f.pixel) {
    V sums[kPixels][kInt8Vectors];
    each<kPixels>([&]<int k>() __attribute__((always_inline)) {
      each<kInt8Vectors>([&]<int i>() __attribute__((always_inline)) {
        sums[k][i] = hn::LoadU(Int8Sums(), start + c + i * kInt8Lanes);
      });
    });
    taps.template add_tile<kColumns, kStride>(at, c, sums);
    each<kPixels>([&]<int k>() __attribute__((always_inline)) {
      block.store(sums[k], to, count);
      to += channels;
    });
  }
  return p;
}
#endif

template <typename T>
void row_by_products(const RowJob& job, T* y) {
  const Int8Sums di;
  const Int8Depthwise& f = job.f;
  const KernelWindow& w = f.shape.window;
  const int64_t channels = f.shape.out_channels;
  const Taps taps(job);
  Int8Output out = job.out;
  out.multiplier = f.multiplier.data<float>().data();
  out.shift = f.shift.data<float>().data();
  const int32_t* start = f.start.data<int32_t>().data();
#if SPARKPILOT_DEPTHWISE_WORDS
  auto tiles = w.dilation[2] != 1 || w.stride[2] > 2 ? nullptr : [&]() {
    switch (2 * w.kernel[2] + w.stride[2]) {
      case 7: return &tiles_by_products<3, 1, T>;
      case 8: return &tiles_by_products<3, 2, T>;
      case 11: return &tiles_by_products<5, 1, T>;
      case 12: return &tiles_by_products<5, 2, T>;
      default: return static_cast<decltype(&tiles_by_products<3, 1, T>)>(nullptr);
    }
  }();
#endif
  for (int64_t c = 0; c < channels; c += kStep) {
    const Int8Block block(out, c);
    int64_t p = 0;
#if SPARKPILOT_DEPTHWISE_WORDS
    if (tiles) p = tiles(job, taps, block, start, c, w.out[2], y + c);
#endif
    const int64_t next = w.stride[2] / f.phases * f.pixel;
    int64_t at = c + p * next;
    for (T* to = y + c + p * channels; p < w.out[2]; ++p, at += next, to += channels) {
      V sums[kInt8Vectors];
      for (int i = 0; i < kInt8Vectors; ++i) sums[i] = hn::LoadU(di, start + c + i * kInt8Lanes);
      taps.add(at, c, sums);
      block.store(sums, to, std::min(channels - c, kStep));
    }
  }
}

// Computes one output row, or two if y has them.
void rows_target(const RowJob& job, uint8_t* const* y, [[maybe_unused]] int64_t rows) {
#if HWY_TARGET == HWY_AVX3
  if (job.f.dots) return rows == 2 ? rows_by_dots<2>(job, y) : rows_by_dots<1>(job, y);
#endif
  if (job.out.dtype == DType::u8) row_by_products(job, y[0]);
  else row_by_products(job, reinterpret_cast<int8_t*>(y[0]));
}

// Copies pixels of an image, `step` bytes apart, to places `to_step` apart; may write up to a vector past the last.
void copy_target(const uint8_t* from, const uint8_t* end, int64_t pixels, int64_t bytes, int64_t step, uint8_t* to,
                 int64_t to_step) {
  const hn::CappedTag<uint8_t, kDotStep> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < pixels; ++p, from += step, to += to_step) {
    if (end - from < bytes + lanes) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
      continue;
    }
    for (int64_t i = 0; i < bytes; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  }
}

bool has_dots_target() { return HWY_TARGET == HWY_AVX3 && cpu_features().avx512_vnni; }
bool has_words_target() { return SPARKPILOT_DEPTHWISE_WORDS; }
#undef SPARKPILOT_DEPTHWISE_WORDS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(rows_target);
HWY_EXPORT(copy_target);
HWY_EXPORT(has_dots_target);
HWY_EXPORT(has_words_target);

namespace {

constexpr int64_t kMaxDotWeights = 1 << 19;  // bytes, in the second-level cache
constexpr int64_t kMaxWaste = 8;             // one byte in this many of a pixel in scratch may be unused

// The element at position i of a step's four vectors of 16: 0-3, 16-19, 32-35, 48-51, then 4-7 and so on.
constexpr int64_t dot_channel(int64_t i) { return i % 16 / 4 * 16 + i / 16 * 4 + i % 4; }

constexpr int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Whether two output rows need no more groups of image rows than one.
bool rows_pair(const KernelWindow& w) {
  return w.dilation[1] == 1 && (w.kernel[1] + w.stride[1] + kGroup - 1) / kGroup == groups_of(w);
}

// Copies one row of the image with its padding, with the pixels of each phase together.
void copy_row(const Int8Depthwise& f, const uint8_t* x, int64_t n, int64_t h, uint8_t* to) {
  const ConvShape& s = f.shape;
  const KernelWindow& w = s.window;
  const int64_t channels = s.in_channels, phases = f.phases, pixels = (pixels_under(w) + phases - 1) / phases;
  const int64_t pixel = f.pixel;
  const bool inside = h >= 0 && h < w.in[1];
  const uint8_t* row = x + n * s.x.n + h * s.x.h;
  for (int64_t phase = 0; phase < phases; ++phase, to += f.phase_bytes()) {
    // Pixel i is column phase + i * phases - pad of the image.
    const int64_t column = phase - w.pad_begin[2];
    const int64_t first = std::clamp<int64_t>((phases - 1 - column) / phases, 0, pixels);
    const int64_t last = std::clamp<int64_t>((w.in[2] - column + phases - 1) / phases, first, pixels);
    if (!inside || first == last) {
      std::fill_n(to, pixels * pixel, f.padding);
      continue;
    }
    std::fill_n(to, first * pixel, f.padding);
    const uint8_t* from = row + (column + first * phases) * channels;
    if (phases == 1 && pixel == channels) {
      std::copy_n(from, (last - first) * channels, to + first * channels);
    } else {
      HWY_DYNAMIC_DISPATCH(copy_target)
      (from, x + s.batch * s.x.n, last - first, channels, phases * channels, to + first * pixel, pixel);
    }
    std::fill_n(to + last * pixel, (pixels - last) * pixel, f.padding);
  }
}

}  // namespace

int64_t Int8Depthwise::phase_bytes() const {
  const int64_t pixels = (pixels_under(shape.window) + phases - 1) / phases;
  return aligned(pixels * pixel) + kDotStep;
}
int64_t Int8Depthwise::row_bytes() const { return phases * phase_bytes(); }
int64_t Int8Depthwise::kept_rows() const { return rows_under(shape.window, pairs ? 2 : 1); }
int64_t Int8Depthwise::scratch_bytes() const { return kept_rows() * row_bytes() + kAlign; }

Int8Depthwise pack_depthwise_int8(const ConvShape& shape, const int8_t* weights, uint8_t padding, const int32_t* start,
                                  const float* multiplier, const float* shift, bool fast) {
  const KernelWindow& w = shape.window;
  const int64_t taps = w.kernel_size(), channels = shape.out_channels, columns = w.kernel[2];
  Int8Depthwise f;
  f.shape = shape;
  f.padding = padding;
  f.pairs = rows_pair(w);
  const int64_t vectors = (w.out[2] * channels + kDotStep - 1) / kDotStep;
  const int64_t whole = aligned(channels);
  // If not flat, each pixel begins at a vector, so that no load crosses cache lines.
  const bool flat = kMaxWaste * (whole - channels) > whole;
  const int64_t dot_steps = flat ? std::min(channels / std::gcd(channels, kDotStep), vectors) : whole / kDotStep;
  const int64_t operands = groups_of(w) * columns, dot_weights = (f.pairs ? 2 : 1) * operands * kGroup * kDotStep;
  f.dots = fast && HWY_DYNAMIC_DISPATCH(has_dots_target)() && dot_steps * dot_weights <= kMaxDotWeights;
  f.pairs = f.pairs && f.dots;
  f.step = f.dots ? kDotStep : kStep;
  f.pixel = f.dots && !flat ? whole : channels;
  f.phases = f.dots ? w.stride[2] : 1;
  f.steps = f.dots ? dot_steps : (channels + kStep - 1) / kStep;
  const int64_t places = f.steps * f.step;
  const bool words = !f.dots && HWY_DYNAMIC_DISPATCH(has_words_target)();
  f.weights = words ? Tensor::zeros(DType::i16, Shape{word_rows(w) / 2, columns, places, 2})
                    : Tensor::zeros(DType::i8, f.dots ? Shape{f.steps, dot_weights} : Shape{taps, places});
  f.start = Tensor::zeros(DType::i32, Shape{places});
  f.multiplier = Tensor::zeros(DType::f32, Shape{places});
  f.shift = Tensor::zeros(DType::f32, Shape{places});
  auto* const packed = words ? nullptr : f.weights.data<int8_t>().data();
  auto* const packed_words = words ? f.weights.data<int16_t>().data() : nullptr;
  for (int64_t i = 0; i < places; ++i) {
    const int64_t step = i / f.step, in_step = i % f.step;
    int64_t c = f.dots ? step * kDotStep + dot_channel(in_step) : i;
    if (f.dots && flat) c %= channels;
    if (c >= channels) continue;
    f.start.data<int32_t>()[static_cast<size_t>(i)] = start[c];
    f.multiplier.data<float>()[static_cast<size_t>(i)] = multiplier[c];
    f.shift.data<float>()[static_cast<size_t>(i)] = shift[c];
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t word = (t / columns / 2 * columns + t % columns) * places + i;
      if (words) packed_words[2 * word + t / columns % 2] = weights[c * taps + t];
      else if (!f.dots) packed[t * places + i] = weights[c * taps + t];
      for (int64_t y = 0; f.dots && y < (f.pairs ? 2 : 1); ++y) {
        const int64_t row = t / columns + y * w.stride[1];
        const int64_t operand = (y * groups_of(w) + row / kGroup) * columns + t % columns;
        packed[step * dot_weights + (operand * kDotStep + in_step) * kGroup + row % kGroup] = weights[c * taps + t];
      }
    }
  }
  return f;
}

void depthwise_int8(const Int8Depthwise& f, const uint8_t* x, const Int8Output& out, int64_t first_row,
                    int64_t last_row, std::byte* scratch) {
  const KernelWindow& w = f.shape.window;
  auto* ring = reinterpret_cast<uint8_t*>(scratch);
  ring += aligned(reinterpret_cast<intptr_t>(ring)) - reinterpret_cast<intptr_t>(ring);
  const int64_t kept = f.kept_rows(), row_bytes = f.row_bytes();
  RowJob job{f, out, {}, {}};
  for (int64_t k = 0; k < w.kernel[2]; ++k) {
    const int64_t pixel = k * w.dilation[2];
    job.columns[k] = pixel % f.phases * f.phase_bytes() + pixel / f.phases * f.pixel;
  }
  int64_t n = -1, copied = 0;  // rows of image n before `copied` are in the ring, up to its size
  for (int64_t row = first_row; row < last_row;) {
    const int64_t oh = row % w.out[1], top = oh * w.stride[1] - w.pad_begin[1];
    const int64_t rows = f.pairs && oh + 1 < w.out[1] && row + 1 < last_row ? 2 : 1;
    if (n != row / w.out[1]) {
      n = row / w.out[1];
      copied = top;
    }
    const auto kept_row = [&](int64_t h) { return ring + (h + w.pad_begin[1]) % kept * row_bytes; };
    const int64_t end = top + rows_under(w, rows);
    for (int64_t h = std::max(top, copied); h < end; ++h) copy_row(f, x, n, h, kept_row(h));
    copied = end;
    // Rows beyond the kernel have weights of 0.
    for (int64_t j = 0; j < groups_of(w) * kGroup; ++j) {
      job.rows[j] = kept_row(std::min(top + j * w.dilation[1], end - 1));
    }
    uint8_t* y[2];
    for (int64_t r = 0; r < rows; ++r) {
      y[r] = static_cast<uint8_t*>(out.y) + (row + r) * w.out[2] * f.shape.out_channels;
    }
    HWY_DYNAMIC_DISPATCH(rows_target)(job, y, rows);
    row += rows;
  }
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

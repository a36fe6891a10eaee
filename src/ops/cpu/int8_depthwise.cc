#include "ops/cpu/int8_depthwise.h"

#include <algorithm>

#include "hw/cpu.h"
#include "ops/cpu/int8_windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/int8_depthwise.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/int8_output-inl.h"

#ifndef SPARKPILOT_INT8_DEPTHWISE_ONCE
#define SPARKPILOT_INT8_DEPTHWISE_ONCE
namespace sparkpilot {
namespace {

constexpr int64_t kDotStep = 64, kStep = Int8Matrix::kBlock, kAlign = 64;
constexpr int64_t kGroup = 4;  // rows of the kernel in a dot product

// One row of the output: the padded image's rows under it, and memory for the dots' operands.
struct RowJob {
  const Int8Depthwise& f;
  const Int8Output& out;
  const uint8_t* image;
  int64_t row_bytes, pixel_bytes;
  uint8_t* operands;
};

int64_t groups_of(const Window& w) { return (w.kernel[1] + kGroup - 1) / kGroup; }
// Pixels of the padded image under a row of the output.
int64_t pixels_under(const Window& w) { return (w.out[2] - 1) * w.stride[2] + (w.kernel[2] - 1) * w.dilation[2] + 1; }

}  // namespace
}  // namespace sparkpilot
#endif  // SPARKPILOT_INT8_DEPTHWISE_ONCE

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using V = hn::Vec<Int8Sums>;

#if HWY_TARGET == HWY_AVX3
// 64 channels of four rows side by side: of each column of pixels one operand for every column of the kernel. They lie
// as unpacking bytes, then words, of the rows leaves them (dot_channel below); packing the results undoes it.
HWY_INLINE void interleave(const uint8_t* const (&rows)[kGroup], int64_t pixels, int64_t pixel_bytes, uint8_t* to) {
  for (int64_t p = 0; p < pixels; ++p, to += kGroup * kDotStep) {
    const int64_t at = p * pixel_bytes;
    const __m512i r0 = _mm512_loadu_si512(rows[0] + at), r1 = _mm512_loadu_si512(rows[1] + at);
    const __m512i r2 = _mm512_loadu_si512(rows[2] + at), r3 = _mm512_loadu_si512(rows[3] + at);
    const __m512i low01 = _mm512_unpacklo_epi8(r0, r1), high01 = _mm512_unpackhi_epi8(r0, r1);
    const __m512i low23 = _mm512_unpacklo_epi8(r2, r3), high23 = _mm512_unpackhi_epi8(r2, r3);
    _mm512_store_si512(to, _mm512_unpacklo_epi16(low01, low23));
    _mm512_store_si512(to + 64, _mm512_unpackhi_epi16(low01, low23));
    _mm512_store_si512(to + 128, _mm512_unpacklo_epi16(high01, high23));
    _mm512_store_si512(to + 192, _mm512_unpackhi_epi16(high01, high23));
  }
}

// What a step of 64 channels reads again and again.
struct Step {
  const int8_t* weights;
  const int32_t* start;
  const float *multiplier, *shift;
  int64_t groups, columns, group_bytes, column_bytes;  // of the operands
};

// Sums of some pixels into the output.
template <typename T>
HWY_INLINE void store_pixels(const Step& step, const Int8Output& out, const int32_t* sums, int pixels, T* y,
                             int64_t y_next, int64_t count) {
  const __m512 low = _mm512_set1_ps(out.low), high = _mm512_set1_ps(out.high);
  const __m512i zero = _mm512_set1_epi32(out.zero);
  const __mmask64 mask = count >= kDotStep ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
  const auto finish = [&](const int32_t* from, int at) {
    const __m512 v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(from + at)),
                                     _mm512_loadu_ps(step.multiplier + at), _mm512_loadu_ps(step.shift + at));
    return _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, low), high)), zero);
  };
  for (int p = 0; p < pixels; ++p, sums += kDotStep, y += y_next) {
    const __m512i left = _mm512_packs_epi32(finish(sums, 0), finish(sums, 16));
    const __m512i right = _mm512_packs_epi32(finish(sums, 32), finish(sums, 48));
    const __m512i bytes = std::is_signed_v<T> ? _mm512_packs_epi16(left, right) : _mm512_packus_epi16(left, right);
    _mm512_mask_storeu_epi8(y, mask, bytes);
  }
}

// 64 sums, in members rather than an array, which the compiler would leave in memory.
struct Sums {
  __m512i a, b, c, d;
  HWY_INLINE void add(const uint8_t* x, const Sums& w) {
    add(a, x, w.a);
    add(b, x + 64, w.b);
    add(c, x + 128, w.c);
    add(d, x + 192, w.d);
  }
  HWY_INLINE void store(int32_t* to) const {
    _mm512_store_si512(to, a);
    _mm512_store_si512(to + 16, b);
    _mm512_store_si512(to + 32, c);
    _mm512_store_si512(to + 48, d);
  }

 private:
  static HWY_INLINE void add(__m512i& sum, const uint8_t* x, __m512i w) {
    const __m512i operand = _mm512_load_si512(x);
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(operand), "v"(w));
  }
};

// kPixels neighbours, which share the weights on their way through the registers.
template <int kPixels, typename T>
HWY_INLINE void dots(const Step& step, const Int8Output& out, const uint8_t* x, int64_t x_next, T* y, int64_t y_next,
                     int64_t count) {
  static_assert(kPixels == 1 || kPixels == 4);
  const Sums start{_mm512_loadu_si512(step.start), _mm512_loadu_si512(step.start + 16),
                   _mm512_loadu_si512(step.start + 32), _mm512_loadu_si512(step.start + 48)};
  Sums s0 = start, s1 = start, s2 = start, s3 = start;
  const int8_t* w = step.weights;
  for (int64_t g = 0; g < step.groups; ++g) {
    const uint8_t* at = x + g * step.group_bytes;
    for (int64_t k = 0; k < step.columns; ++k, at += step.column_bytes, w += kGroup * kDotStep) {
      const Sums weights{_mm512_loadu_si512(w), _mm512_loadu_si512(w + 64), _mm512_loadu_si512(w + 128),
                         _mm512_loadu_si512(w + 192)};
      s0.add(at, weights);
      if constexpr (kPixels == 1) continue;
      s1.add(at + x_next, weights);
      s2.add(at + 2 * x_next, weights);
      s3.add(at + 3 * x_next, weights);
    }
  }
  alignas(64) int32_t finished[kPixels * kDotStep];
  s0.store(finished);
  if constexpr (kPixels == 4) {
    s1.store(finished + kDotStep);
    s2.store(finished + 2 * kDotStep);
    s3.store(finished + 3 * kDotStep);
  }
  store_pixels(step, out, finished, kPixels, y, y_next, count);
}

template <typename T>
void row_by_dots(const RowJob& job, T* y) {
  const Int8Depthwise& f = job.f;
  const Window& w = f.shape.window;
  const int64_t channels = f.shape.out_channels, pixels = pixels_under(w), columns = w.kernel[2];
  constexpr int64_t kOperand = kGroup * kDotStep;  // bytes of a pixel
  Step step{f.weights.data<int8_t>().data(),
            f.start.data<int32_t>().data(),
            f.multiplier.data<float>().data(),
            f.shift.data<float>().data(),
            groups_of(w),
            columns,
            pixels * kOperand,
            w.dilation[2] * kOperand};
  const int64_t x_next = f.pixels * w.stride[2] * kOperand;
  for (int64_t s = 0; s < f.steps; ++s) {
    for (int64_t g = 0; g < step.groups; ++g) {
      const uint8_t* rows[kGroup];
      for (int64_t r = 0; r < kGroup; ++r) {  // what the kernel lacks has weights of 0
        const int64_t row = std::min(g * kGroup + r, w.kernel[1] - 1);
        rows[r] = job.image + row * w.dilation[1] * job.row_bytes + s * kDotStep;
      }
      interleave(rows, pixels, job.pixel_bytes, job.operands + g * step.group_bytes);
    }
    // Bytes of the output from this step's on; those of a vector end with the pixel, or with the row.
    const int64_t first = s * kDotStep, y_next = f.pixels * channels;
    const uint8_t* x = job.operands;
    T* to = y + first;
    int64_t p = 0;
    for (; p + 4 * f.pixels <= w.out[2]; p += 4 * f.pixels, x += 4 * x_next, to += 4 * y_next) {
      dots<4>(step, job.out, x, x_next, to, y_next, y_next - first);
    }
    for (; p < w.out[2]; p += f.pixels, x += x_next, to += y_next) {
      dots<1>(step, job.out, x, x_next, to, y_next, std::min(f.pixels, w.out[2] - p) * channels - first);
    }
    step.weights += step.groups * columns * kOperand;
    step.start += kDotStep;
    step.multiplier += kDotStep;
    step.shift += kDotStep;
  }
}
#endif

// 16 channels, a tap at a time: products fit 16 bits, sums do not.
template <typename T>
void row_by_products(const RowJob& job, T* y) {
  const Int8Sums di;
  const hn::Rebind<int16_t, Int8Sums> d16;
  const hn::Rebind<uint8_t, Int8Sums> dx;
  const hn::Rebind<int8_t, Int8Sums> dw;
  const Int8Depthwise& f = job.f;
  const Window& w = f.shape.window;
  const int64_t channels = f.shape.out_channels, places = f.steps * kStep, taps = w.kernel_size();
  int64_t offsets[kInt8DepthwiseTaps];
  for (int64_t t = 0; t < taps; ++t) {
    offsets[t] = t / w.kernel[2] * w.dilation[1] * job.row_bytes + t % w.kernel[2] * w.dilation[2] * job.pixel_bytes;
  }
  Int8Output out = job.out;
  out.multiplier = f.multiplier.data<float>().data();
  out.shift = f.shift.data<float>().data();
  const int32_t* start = f.start.data<int32_t>().data();
  for (int64_t c = 0; c < channels; c += kStep) {
    const Int8Block block(out, c);
    const uint8_t* x = job.image + c;
    T* to = y + c;
    for (int64_t p = 0; p < w.out[2]; ++p, x += w.stride[2] * job.pixel_bytes, to += channels) {
      V sums[kInt8Vectors];
      for (int i = 0; i < kInt8Vectors; ++i) sums[i] = hn::LoadU(di, start + c + i * kInt8Lanes);
      const int8_t* weights = f.weights.data<int8_t>().data() + c;
      for (int64_t t = 0; t < taps; ++t, weights += places) {
        for (int i = 0; i < kInt8Vectors; ++i) {
          const auto a = hn::PromoteTo(d16, hn::LoadU(dx, x + offsets[t] + i * kInt8Lanes));
          const auto b = hn::PromoteTo(d16, hn::LoadU(dw, weights + i * kInt8Lanes));
          sums[i] = hn::Add(sums[i], hn::PromoteTo(di, hn::Mul(a, b)));
        }
      }
      block.store(sums, to, std::min(channels - c, kStep));
    }
  }
}

template <typename T>
void one_row(const RowJob& job, T* y) {
#if HWY_TARGET == HWY_AVX3
  if (job.f.dots) return row_by_dots(job, y);
#endif
  row_by_products(job, y);
}

void row_target(const RowJob& job, void* y) {
  if (job.out.dtype == DType::u8) one_row(job, static_cast<uint8_t*>(y));
  else one_row(job, static_cast<int8_t*>(y));
}

bool has_dots_target() { return HWY_TARGET == HWY_AVX3 && cpu_features().avx512_vnni; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(row_target);
HWY_EXPORT(has_dots_target);

namespace {

// The channel at place i of a step's four vectors of 16: 0-3, 16-19, 32-35, 48-51, then 4-7 and so on.
constexpr int64_t dot_channel(int64_t i) { return i % 16 / 4 * 16 + i / 16 * 4 + i % 4; }

constexpr int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// One row of the image with its padding.
void copy_row(const Int8Depthwise& f, const uint8_t* x, int64_t n, int64_t h, uint8_t* to) {
  const ConvShape& s = f.shape;
  const Window& w = s.window;
  const int64_t pixels = pixels_under(w), channels = s.in_channels, pixel = f.pixel_bytes();
  const bool inside = h >= 0 && h < w.in[1];
  const int64_t before = inside ? std::min(w.pad_begin[2], pixels) : pixels;
  const int64_t there = inside ? std::max<int64_t>(0, std::min(w.in[2], pixels - before)) : 0;
  std::fill_n(to, before * pixel, f.padding);
  if (there > 0) {
    const uint8_t* from = x + n * s.x.n + h * s.x.h;
    uint8_t* at = to + before * pixel;
    if (pixel == channels) std::copy_n(from, there * channels, at);
    else
      for (int64_t i = 0; i < there; ++i) std::copy_n(from + i * channels, channels, at + i * pixel);
  }
  std::fill_n(to + (before + there) * pixel, (pixels - before - there) * pixel, f.padding);
}

}  // namespace

int64_t Int8Depthwise::pixel_bytes() const { return pixels > 1 ? shape.in_channels : steps * step; }
int64_t Int8Depthwise::row_bytes() const { return aligned(pixels_under(shape.window) * pixel_bytes()); }

int64_t Int8Depthwise::scratch_bytes(int64_t rows) const {
  const Window& w = shape.window;
  const int64_t operands = dots ? groups_of(w) * pixels_under(w) * kGroup * kDotStep : 0;
  return rows_under(w, rows) * row_bytes() + operands + kAlign + kDotStep;
}

Int8Depthwise pack_depthwise_int8(const ConvShape& shape, const int8_t* weights, uint8_t padding, const int32_t* start,
                                  const float* multiplier, const float* shift, bool fast) {
  const Window& w = shape.window;
  const int64_t taps = w.kernel_size(), channels = shape.out_channels, columns = w.kernel[2];
  Int8Depthwise f;
  f.shape = shape;
  f.padding = padding;
  f.dots = fast && HWY_DYNAMIC_DISPATCH(has_dots_target)();
  f.step = f.dots ? kDotStep : kStep;
  f.steps = (channels + f.step - 1) / f.step;
  if (f.dots && w.stride[2] == 1 && kDotStep % channels == 0) f.pixels = kDotStep / channels;
  const int64_t places = f.steps * f.step, padded_taps = f.dots ? groups_of(w) * kGroup * columns : taps;
  f.weights = Tensor::zeros(DType::i8, Shape{padded_taps, places});
  f.start = Tensor::zeros(DType::i32, Shape{places});
  f.multiplier = Tensor::zeros(DType::f32, Shape{places});
  f.shift = Tensor::zeros(DType::f32, Shape{places});
  for (int64_t i = 0; i < places; ++i) {
    const int64_t step = i / f.step, in_step = i % f.step;
    const int64_t place = step * f.step + (f.dots ? dot_channel(in_step) : in_step);
    const int64_t c = f.pixels > 1 ? place % channels : place;
    if (c >= channels) continue;
    f.start.data<int32_t>()[static_cast<size_t>(i)] = start[c];
    f.multiplier.data<float>()[static_cast<size_t>(i)] = multiplier[c];
    f.shift.data<float>()[static_cast<size_t>(i)] = shift[c];
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t row = t / columns, column = t % columns;
      const int64_t operand = (step * groups_of(w) + row / kGroup) * columns + column;
      const int64_t at = f.dots ? (operand * f.step + in_step) * kGroup + row % kGroup : t * places + i;
      f.weights.data<int8_t>()[static_cast<size_t>(at)] = weights[c * taps + t];
    }
  }
  return f;
}

void depthwise_int8(const Int8Depthwise& f, const uint8_t* x, const Int8Output& out, int64_t first_row,
                    int64_t last_row, std::byte* scratch) {
  const Window& w = f.shape.window;
  auto* operands = reinterpret_cast<uint8_t*>(scratch);
  operands += aligned(reinterpret_cast<intptr_t>(operands)) - reinterpret_cast<intptr_t>(operands);
  uint8_t* rows = operands + (f.dots ? groups_of(w) * pixels_under(w) * kGroup * kDotStep : 0);
  RowJob job{f, out, rows, f.row_bytes(), f.pixel_bytes(), operands};
  for (int64_t row = first_row; row < last_row;) {
    const int64_t n = row / w.out[1], oh = row % w.out[1];
    const int64_t count = std::min(last_row - row, w.out[1] - oh), top = oh * w.stride[1] - w.pad_begin[1];
    for (int64_t h = 0; h < rows_under(w, count); ++h) copy_row(f, x, n, top + h, rows + h * job.row_bytes);
    for (int64_t i = 0; i < count; ++i) {
      job.image = rows + i * w.stride[1] * job.row_bytes;
      auto* y = static_cast<uint8_t*>(out.y) + (row + i) * w.out[2] * f.shape.out_channels;
      HWY_DYNAMIC_DISPATCH(row_target)(job, y);
    }
    row += count;
  }
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

#include "ops/cpu/depthwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/depthwise.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::CappedTag<float, PanelMatrix::kPanel>;
using V = hn::Vec<D>;
constexpr int64_t kPanel = PanelMatrix::kPanel;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float) < kPanel ? HWY_LANES(float) : kPanel);

// One row of the output, for some channels.
struct Row {
  const ConvShape& s;
  const TileOutput& out;
  const float* weights;  // panels of [kernel positions, kPanel]
  float* y = nullptr;    // the row's first pixel
  int64_t panel_size = 0, first_channel = 0, last_channel = 0;
  int64_t width = 1;  // of most tiles
  // For each of the kernel's rows inside the image: the image's row, and the weights from a panel's start.
  int kernel_rows = 0;
  const float* image[kDepthwiseKernelRows];
  int64_t taps[kDepthwiseKernelRows];
  int64_t first_tap = 0;   // taps[0]
  bool one_block = false;  // they follow each other
};

// The image's values for a vector of output channels. Doubled: each of the image's channels feeds two outputs in a row.
template <bool kDoubled>
HWY_INLINE V load(const float* from) {
  const D d;
  if constexpr (kDoubled && kLanes > 1) {
    const hn::Half<D> half;
    const hn::Rebind<uint64_t, decltype(half)> pairs;
    const auto low = hn::PromoteTo(pairs, hn::BitCast(hn::RebindToUnsigned<decltype(half)>(), hn::LoadU(half, from)));
    return hn::BitCast(d, hn::Or(low, hn::ShiftLeft<32>(low)));
  }
  return hn::LoadU(d, from);
}

// g++ would load the pixel again for each of its products, and loads are what is scarce here.
HWY_INLINE void keep(V& v) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  asm("" : "+v"(v.raw));
#else
  (void)v;
#endif
}

// Calls fn(channel, where its weights begin, channels that count) for vectors of channels.
template <typename Fn>
HWY_INLINE void for_channels(const Row& row, const Fn& fn) {
  for (int64_t c = row.first_channel; c < row.last_channel; c += kPanel) {
    const float* weights = row.weights + c / kPanel * row.panel_size;
    const int64_t end = std::min<int64_t>(kPanel, row.last_channel - c);
    for (int64_t i = 0; i < end; i += kLanes) fn(c + i, weights + i, end - i);
  }
}

// Where results go, and how: clamped.
struct Target {
  float* y;  // the first pixel's first channel
  int64_t step;
  V low, high;
};

template <int kPixels>
HWY_INLINE void store(const Target& to, int64_t c, int64_t channels, const V (&sums)[kPixels]) {
  const D d;
  float* y = to.y + c;
  if (channels >= kLanes) {
    HWY_UNROLL(10)
    for (int t = 0; t < kPixels; ++t, y += to.step) {
      hn::StoreU(max_keep_nan(to.low, min_keep_nan(to.high, sums[t])), d, y);
    }
  } else {
    for (int t = 0; t < kPixels; ++t, y += to.step) {
      store_first(d, max_keep_nan(to.low, min_keep_nan(to.high, sums[t])), y, static_cast<size_t>(channels));
    }
  }
}

HWY_INLINE Target target(const Row& row, int64_t ow) {
  const D d;
  return {row.y + ow * row.s.y.w, row.s.y.w, hn::Set(d, row.out.low), hn::Set(d, row.out.high)};
}

// How the image lies: any distance between pixels, one panel (a slab), or doubled channels at any distance.
enum Source { kAny, kSlab, kDouble };

// What one row of the kernel adds to kPixels neighbours: each pixel of x is loaded once for all the sums it enters. At
// the border (kBorder) only pixels [first, last) are there.
template <Source kSource, int kPixels, int kKernel, int kStride, bool kBorder>
HWY_INLINE void add_row(const float* from, int64_t any_step, const float* weights, int first, int last,
                        V (&sums)[kPixels]) {
  constexpr int kSpan = (kPixels - 1) * kStride + kKernel;
  const D d;
  const int64_t step = kSource == kSlab ? kPanel : any_step;
  V taps[kKernel];
  HWY_UNROLL(8)
  for (int k = 0; k < kKernel; ++k) taps[k] = hn::LoadU(d, weights + k * kPanel);
  HWY_UNROLL(32)
  for (int i = 0; i < kSpan; ++i) {
    if (kBorder && i < kKernel - 1 && i < first) continue;
    if (kBorder && i > kSpan - kKernel && i >= last) continue;
    V v = load<kSource == kDouble>(from + i * step);
    keep(v);
    HWY_UNROLL(8)
    for (int k = 0; k < kKernel; ++k) {
      const int t = (i - k) / kStride;
      if (i >= k && (i - k) % kStride == 0 && t < kPixels) sums[t] = hn::MulAdd(v, taps[k], sums[t]);
    }
  }
}

// kPixels neighbours under a kernel kKernel wide. kRows: so many rows of the kernel, 0: those that are inside.
template <Source kSource, int kPixels, int kKernel, int kStride, int kRows, bool kBorder>
HWY_NOINLINE void tile(const Row& row, int64_t ow) {
  constexpr int kSpan = (kPixels - 1) * kStride + kKernel;
  constexpr int kMostRows = kRows > 0 ? kRows : static_cast<int>(kDepthwiseKernelRows);
  constexpr int64_t kTapRow = kKernel * kPanel;
  const D d;
  const int64_t start = ow * kStride - row.s.window.pad_begin[2], step = row.s.x.w;
  const auto first = static_cast<int>(-start);
  const auto last = static_cast<int>(std::min<int64_t>(kSpan, row.s.window.in[2] - start));
  const float* bias = row.out.bias;
  const Target to = target(row, ow);
  const int kernel_rows = kRows > 0 ? kRows : row.kernel_rows;
  const float* image[kMostRows];
  for (int j = 0; j < kernel_rows; ++j) image[j] = row.image[j] + start * step;
  const int64_t panel_skip = row.panel_size - kPanel, end = row.last_channel;
  const float* weights = row.weights + row.first_channel / kPanel * row.panel_size + row.first_tap;
  for (int64_t c = row.first_channel; c < end; weights += panel_skip) {
    for (int64_t lane = 0; lane < kPanel && c < end; lane += kLanes, c += kLanes, weights += kLanes) {
      V sums[kPixels];
      sums[0] = bias ? hn::LoadU(d, bias + c) : hn::Zero(d);
      HWY_UNROLL(10)
      for (int t = 1; t < kPixels; ++t) sums[t] = sums[0];
      const int64_t at = kSource == kDouble ? c / 2 : c;
      if constexpr (kRows > 0) {
        HWY_UNROLL(8)
        for (int j = 0; j < kRows; ++j) {
          add_row<kSource, kPixels, kKernel, kStride, kBorder>(image[j] + at, step, weights + j * kTapRow, first, last,
                                                               sums);
        }
      } else {
        for (int j = 0; j < kernel_rows; ++j) {
          add_row<kSource, kPixels, kKernel, kStride, kBorder>(image[j] + at, step, weights + j * kTapRow, first, last,
                                                               sums);
        }
      }
      store(to, c, end - c, sums);
    }
  }
}

// Any kernel, one pixel.
template <bool kDoubled>
void pixel(const Row& row, int64_t ow) {
  const D d;
  const Window& w = row.s.window;
  const int64_t start = ow * w.stride[2] - w.pad_begin[2], step = w.dilation[2] * row.s.x.w;
  const KernelRange kw = inside(start, w.kernel[2], w.dilation[2], w.in[2]);
  const Target to = target(row, ow);
  for_channels(row, [&](int64_t c, const float* weights, int64_t channels) HWY_ATTR {
    V sum[1] = {row.out.bias ? hn::LoadU(d, row.out.bias + c) : hn::Zero(d)};
    for (int j = 0; j < row.kernel_rows; ++j) {
      const float* from = row.image[j] + start * row.s.x.w + (kDoubled ? c / 2 : c);
      const float* tap = weights + row.taps[j];
      for (int64_t k = kw.begin; k < kw.end; ++k) {
        sum[0] = hn::MulAdd(load<kDoubled>(from + k * step), hn::LoadU(d, tap + k * kPanel), sum[0]);
      }
    }
    store(to, c, channels, sum);
  });
}

// Pixels of the widest tile: as many sums as leave registers for the kernel's row.
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3
constexpr int kWidest = 8;
#else
constexpr int kWidest = 10;
#endif

// Pixels of a tile where a row has so many: nearly equal ones, even.
int64_t tile_width(int64_t pixels) {
  const int64_t count = std::max<int64_t>(1, (pixels + kWidest - 1) / kWidest);
  return ((pixels + count - 1) / count + 1) / 2 * 2;
}

template <Source kSource, int kKernel, int kStride, int kRows>
void tiles(const Row& row) {
  const Window& w = row.s.window;
  for (int64_t ow = 0; ow < w.out[2];) {
    const int64_t left = w.out[2] - ow, start = ow * kStride - w.pad_begin[2];
    const int64_t width = left >= row.width ? row.width : left > 1 ? left & ~int64_t{1} : 1;
    if (width == kWidest) {
      if (start >= 0 && start + (kWidest - 1) * kStride + kKernel <= w.in[2]) {
        tile<kSource, kWidest, kKernel, kStride, kRows, false>(row, ow);
      } else {
        tile<kSource, kWidest, kKernel, kStride, kRows, true>(row, ow);
      }
    } else if (width == 8) {
      tile<kSource, 8, kKernel, kStride, kRows, true>(row, ow);
    } else if (width == 6) {
      tile<kSource, 6, kKernel, kStride, kRows, true>(row, ow);
    } else if (width == 4) {
      tile<kSource, 4, kKernel, kStride, kRows, true>(row, ow);
    } else if (width == 2) {
      tile<kSource, 2, kKernel, kStride, kRows, true>(row, ow);
    } else {
      tile<kSource, 1, kKernel, kStride, kRows, true>(row, ow);
    }
    ow += width;
  }
}

template <Source kSource>
void one_row(const Row& row) {
  const Window& w = row.s.window;
  const bool plain = w.dilation[2] == 1 && w.pad_begin[2] < w.kernel[2] && w.pad_end[2] < w.kernel[2] && row.one_block;
  const int64_t kernel = plain ? w.kernel[2] : 0, stride = w.stride[2];
  if (kernel == 3 && stride == 1)
    return row.kernel_rows == 3 ? tiles<kSource, 3, 1, 3>(row) : tiles<kSource, 3, 1, 0>(row);
  if (kernel == 3 && stride == 2)
    return row.kernel_rows == 3 ? tiles<kSource, 3, 2, 3>(row) : tiles<kSource, 3, 2, 0>(row);
  if (kernel == 5 && stride == 1) return tiles<kSource, 5, 1, 0>(row);
  if (kernel == 5 && stride == 2) return tiles<kSource, 5, 2, 0>(row);
  if (kernel == 7 && stride == 1) return tiles<kSource, 7, 1, 0>(row);
  if (kernel == 7 && stride == 2) return tiles<kSource, 7, 2, 0>(row);
  for (int64_t ow = 0; ow < w.out[2]; ++ow) pixel<kSource == kDouble>(row, ow);
}

// Channels that are done together: the rows under the kernel should stay in the first cache, and the memory be read in
// runs that the processor prefetches.
int64_t channel_chunk(const ConvShape& s) {
  constexpr int64_t kFloats = 6144, kLeast = 64;
  const int64_t pixels = s.window.in[2] * s.window.kernel[0] * s.window.kernel[1];
  return std::max(kLeast, kFloats / pixels / kPanel * kPanel);
}

// Notes the kernel's rows that lie inside the image.
void find_kernel_rows(Row& row, const float* image, int64_t ring, int64_t d0, int64_t h0) {
  const Window& w = row.s.window;
  const KernelRange kd = inside(d0, w.kernel[0], w.dilation[0], w.in[0]);
  const KernelRange kh = inside(h0, w.kernel[1], w.dilation[1], w.in[1]);
  const int64_t top = h0 + kh.begin * w.dilation[1], first = top < ring ? top : top % ring;
  row.kernel_rows = 0;
  for (int64_t d = kd.begin; d < kd.end; ++d) {
    int64_t at = first;
    for (int64_t h = kh.begin; h < kh.end; ++h) {
      row.image[row.kernel_rows] = image + (d0 + d * w.dilation[0]) * row.s.x.d + at * row.s.x.h;
      row.taps[row.kernel_rows++] = (d * w.kernel[1] + h) * w.kernel[2] * kPanel;
      at += w.dilation[1];
      while (at >= ring) at -= ring;
    }
  }
  row.one_block = w.kernel[0] == 1;
  row.first_tap = row.kernel_rows > 0 ? row.taps[0] : 0;
}

template <Source kSource>
void all_rows(const float* x, int64_t ring, const ConvShape& s, const PanelMatrix& weights, const TileOutput& out,
              const RowRange& range) {
  const Window& w = s.window;
  const int64_t chunk = channel_chunk(s), last = std::min(s.out_channels, range.last_panel * kPanel);
  Row row{.s = s, .out = out, .weights = static_cast<const float*>(weights.data.raw())};
  row.panel_size = weights.depth * kPanel;
  row.width = tile_width(w.out[2]);
  for (int64_t c = range.first_panel * kPanel; c < last; c += chunk) {
    row.first_channel = c;
    row.last_channel = std::min(last, c + chunk);
    int64_t oh = range.first_row % w.out[1], od = range.first_row / w.out[1] % w.out[0];
    int64_t n = range.first_row / w.out[1] / w.out[0];
    for (int64_t r = range.first_row; r < range.last_row; ++r) {
      row.y = out.y + n * s.y.n + od * s.y.d + oh * s.y.h;
      find_kernel_rows(row, x + n * s.x.n, ring, od * w.stride[0] - w.pad_begin[0], oh * w.stride[1] - w.pad_begin[1]);
      one_row<kSource>(row);
      if (++oh < w.out[1]) continue;
      oh = 0;
      if (++od < w.out[0]) continue;
      od = 0;
      ++n;
    }
  }
}

void depthwise_impl(const float* x, int64_t ring, const ConvShape& s, const PanelMatrix& weights, const TileOutput& out,
                    const RowRange& range) {
  if (s.out_channels != s.in_channels) all_rows<kDouble>(x, ring, s, weights, out, range);
  else if (s.x.w == kPanel) all_rows<kSlab>(x, ring, s, weights, out, range);
  else all_rows<kAny>(x, ring, s, weights, out, range);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(depthwise_impl);

void depthwise_rows(const float* x, int64_t ring, const ConvShape& shape, const PanelMatrix& weights,
                    const TileOutput& out, const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(depthwise_impl)(x, ring, shape, weights, out, range);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

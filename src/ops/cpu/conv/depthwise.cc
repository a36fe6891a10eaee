#include "ops/cpu/conv/depthwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/conv/depthwise.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::CappedTag<float, PanelMatrix::kPanel>;
using V = hn::Vec<D>;
constexpr int64_t kPanel = PanelMatrix::kPanel;
constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float) < kPanel ? HWY_LANES(float) : kPanel);

// Some consecutive rows of the output, for some channels. The same rows of the kernel are inside the image for all of
// them.
struct Rows {
  const ConvShape& s;
  const TileOutput& out;
  const float* weights;  // panels of [kernel positions, kPanel]
  float* y = nullptr;    // the first row's first pixel
  int64_t count = 1;
  int64_t panel_size = 0, first_channel = 0, last_channel = 0;
  int64_t width = 1;  // pixels of most tiles
  const float* image = nullptr;
  // `top`: the place in the ring of the image row under the first output row's first kernel row.
  int64_t ring = 0, top = 0;
  KernelRange depths{}, kernel{};  // depths and rows of the kernel that are inside the image
  int64_t depth = 0;               // depth in the image under the kernel's first
};

// The image's values for a vector of output channels. Doubled: each channel of the image feeds two consecutive outputs.
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

// Keeps g++ from loading the pixel again for each of its products, since loads are the bottleneck here.
HWY_INLINE void keep(V& v) {
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  asm("" : "+v"(v.raw));
#else
  (void)v;
#endif
}

// Calls fn(channel, offset of its weights, number of valid channels) for vectors of channels.
template <typename Fn>
HWY_INLINE void for_channels(const Rows& row, const Fn& fn) {
  for (int64_t c = row.first_channel; c < row.last_channel; c += kPanel) {
    const float* weights = row.weights + c / kPanel * row.panel_size;
    const int64_t end = std::min<int64_t>(kPanel, row.last_channel - c);
    for (int64_t i = 0; i < end; i += kLanes) fn(c + i, weights + i, end - i);
  }
}

// Where results are stored, and their clamps.
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

HWY_INLINE Target target(const Rows& row, int64_t ow) {
  const D d;
  return {row.y + ow * row.s.y.w, row.s.y.w, hn::Set(d, row.out.low), hn::Set(d, row.out.high)};
}

// How the image is stored: with any distance between pixels, as one panel (a slab), or doubled channels at any
// distance.
enum Source { kAny, kSlab, kDouble };

// Adds what one row of the kernel contributes to kPixels adjacent outputs: each pixel of x is loaded once for all sums
// that it enters. At the border (kBorder) only pixels [first, last) are inside.
template <Source kSource, int kPixels, int kKernel, int kStride, bool kBorder>
HWY_INLINE void add_row(const float* from, int64_t any_step, const V (&taps)[kKernel], int first, int last,
                        V (&sums)[kPixels]) {
  constexpr int kSpan = (kPixels - 1) * kStride + kKernel;
  const int64_t step = kSource == kSlab ? kPanel : any_step;
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

template <int kKernel>
HWY_INLINE void load_taps(const float* weights, V (&taps)[kKernel]) {
  const D d;
  HWY_UNROLL(8)
  for (int k = 0; k < kKernel; ++k) taps[k] = hn::LoadU(d, weights + k * kPanel);
}

// The position in a ring, advanced by `by`.
HWY_INLINE int64_t advance(int64_t at, int64_t by, int64_t ring) {
  at += by;
  if (at < ring) return at;
  at -= ring;
  return at < ring ? at : at % ring;
}

// Registers for a kernel of 3x3, a tile's sums and a pixel; elsewhere the weights of one row at a time are kept.
constexpr bool kKeepsKernel = !HWY_ARCH_X86 || HWY_TARGET <= HWY_AVX3;

// Computes `tiles` tiles in each row, each of kPixels adjacent pixels, for a kernel kKernel wide. kKernelRows: number
// of kernel rows, whose weights are kept in registers where these suffice; 0: those that are inside. At the border one
// tile.
template <Source kSource, int kPixels, int kKernel, int kStride, int kKernelRows, bool kBorder>
HWY_NOINLINE void tile(const Rows& rows, int64_t ow, int64_t tiles) {
  constexpr int kSpan = (kPixels - 1) * kStride + kKernel;
  constexpr int64_t kTapRow = kKernel * kPanel;
  const D d;
  const KernelWindow& w = rows.s.window;
  const int64_t start = ow * kStride - w.pad_begin[2], step = kSource == kSlab ? kPanel : rows.s.x.w;
  const auto first = static_cast<int>(-start);
  const auto last = static_cast<int>(std::min<int64_t>(kSpan, w.in[2] - start));
  const float* bias = rows.out.bias;
  const Target to = target(rows, ow);
  const int64_t kernel_rows = kKernelRows > 0 ? kKernelRows : rows.kernel.end - rows.kernel.begin;
  const int64_t panel_skip = rows.panel_size - kPanel, end = rows.last_channel, image_row = rows.s.x.h;
  const float* weights = rows.weights + rows.first_channel / kPanel * rows.panel_size + rows.kernel.begin * kTapRow;
  if (kBorder) tiles = 1;
  for (int64_t c = rows.first_channel; c < end; weights += panel_skip) {
    for (int64_t lane = 0; lane < kPanel && c < end; lane += kLanes, c += kLanes, weights += kLanes) {
      const V start_sum = bias ? hn::LoadU(d, bias + c) : hn::Zero(d);
      V taps[kKernelRows > 0 && kKeepsKernel ? kKernelRows : 1][kKernel];
      if constexpr (kKeepsKernel) {
        HWY_UNROLL(8)
        for (int j = 0; j < kKernelRows; ++j) load_taps(weights + j * kTapRow, taps[j]);
      }
      const float* image = rows.image + start * step + (kSource == kDouble ? c / 2 : c);
      Target row = to;
      for (int64_t i = 0, top = rows.top; i < rows.count; ++i, row.y += rows.s.y.h) {
        Target at = row;
        const float* from = image;
        for (int64_t t = 0; t < tiles; ++t, from += kPixels * kStride * step, at.y += kPixels * at.step) {
          V sums[kPixels];
          HWY_UNROLL(10)
          for (int p = 0; p < kPixels; ++p) sums[p] = start_sum;
          int64_t slot = top;
          if constexpr (kKernelRows > 0) {
            HWY_UNROLL(8)
            for (int j = 0; j < kKernelRows; ++j, slot = advance(slot, w.dilation[1], rows.ring)) {
              if constexpr (!kKeepsKernel) load_taps(weights + j * kTapRow, taps[0]);
              add_row<kSource, kPixels, kKernel, kStride, kBorder>(from + slot * image_row, step,
                                                                   taps[kKeepsKernel ? j : 0], first, last, sums);
            }
          } else {
            for (int64_t j = 0; j < kernel_rows; ++j, slot = advance(slot, w.dilation[1], rows.ring)) {
              load_taps(weights + j * kTapRow, taps[0]);
              add_row<kSource, kPixels, kKernel, kStride, kBorder>(from + slot * image_row, step, taps[0], first, last,
                                                                   sums);
            }
          }
          store(at, c, end - c, sums);
        }
        top = advance(top, w.stride[1], rows.ring);
      }
    }
  }
}

// Any kernel, one pixel at a time.
template <bool kDoubled>
void pixel(const Rows& row, int64_t ow) {
  const D d;
  const ConvShape& s = row.s;
  const KernelWindow& w = s.window;
  const int64_t start = ow * w.stride[2] - w.pad_begin[2], step = w.dilation[2] * s.x.w;
  const KernelRange kw = inside(start, w.kernel[2], w.dilation[2], w.in[2]);
  const Target to = target(row, ow);
  for_channels(row, [&](int64_t c, const float* weights, int64_t channels) HWY_ATTR {
    V sum[1] = {row.out.bias ? hn::LoadU(d, row.out.bias + c) : hn::Zero(d)};
    for (int64_t z = row.depths.begin; z < row.depths.end; ++z) {
      const float* image = row.image + (row.depth + z * w.dilation[0]) * s.x.d + start * s.x.w;
      int64_t slot = row.top;
      for (int64_t h = row.kernel.begin; h < row.kernel.end; ++h, slot = advance(slot, w.dilation[1], row.ring)) {
        const float* from = image + slot * s.x.h + (kDoubled ? c / 2 : c);
        const float* tap = weights + (z * w.kernel[1] + h) * w.kernel[2] * kPanel;
        for (int64_t k = kw.begin; k < kw.end; ++k) {
          sum[0] = hn::MulAdd(load<kDoubled>(from + k * step), hn::LoadU(d, tap + k * kPanel), sum[0]);
        }
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

// Pixels per tile for a row of `pixels`: tiles of nearly equal, even width.
int64_t tile_width(int64_t pixels) {
  const int64_t count = std::max<int64_t>(1, (pixels + kWidest - 1) / kWidest);
  return ((pixels + count - 1) / count + 1) / 2 * 2;
}

template <Source kSource, int kKernel, int kStride, int kKernelRows>
void tiles(const Rows& rows) {
  const KernelWindow& w = rows.s.window;
  const int64_t pad = w.pad_begin[2], last = w.in[2] + pad - kKernel;  // start of the last window inside the image
  const int64_t inside = last < 0 ? 0 : std::min(w.out[2], last / kStride + 1);
  for (int64_t ow = 0; ow < w.out[2];) {
    const int64_t left = w.out[2] - ow, width = left >= rows.width ? rows.width : left > 1 ? left & ~int64_t{1} : 1;
    if (width == kWidest && ow * kStride >= pad && inside - ow >= kWidest) {
      const int64_t count = (inside - ow) / kWidest;
      tile<kSource, kWidest, kKernel, kStride, kKernelRows, false>(rows, ow, count);
      ow += count * kWidest;
      continue;
    }
    if (width == kWidest) tile<kSource, kWidest, kKernel, kStride, kKernelRows, true>(rows, ow, 1);
    else if (width == 8) tile<kSource, 8, kKernel, kStride, kKernelRows, true>(rows, ow, 1);
    else if (width == 6) tile<kSource, 6, kKernel, kStride, kKernelRows, true>(rows, ow, 1);
    else if (width == 4) tile<kSource, 4, kKernel, kStride, kKernelRows, true>(rows, ow, 1);
    else if (width == 2) tile<kSource, 2, kKernel, kStride, kKernelRows, true>(rows, ow, 1);
    else tile<kSource, 1, kKernel, kStride, kKernelRows, true>(rows, ow, 1);
    ow += width;
  }
}

// Whether the tiled code supports the window: two-dimensional images, kernels 3, 5 or 7 wide without dilation, stride 1
// or 2.
bool takes_tiles(const KernelWindow& w) {
  return w.in[0] == 1 && w.out[0] == 1 && w.kernel[0] == 1 && w.pad_begin[0] == 0 && w.dilation[2] == 1 &&
         w.pad_begin[2] < w.kernel[2] && w.pad_end[2] < w.kernel[2] &&
         (w.kernel[2] == 3 || w.kernel[2] == 5 || w.kernel[2] == 7) && w.stride[2] <= 2;
}

template <Source kSource>
void some_rows(const Rows& rows, bool by_tiles) {
  const KernelWindow& w = rows.s.window;
  if (!by_tiles) {
    for (int64_t ow = 0; ow < w.out[2]; ++ow) pixel<kSource == kDouble>(rows, ow);
    return;
  }
  const bool whole = rows.kernel.end - rows.kernel.begin == 3;
  switch (2 * w.kernel[2] + w.stride[2]) {
    case 7: return whole ? tiles<kSource, 3, 1, 3>(rows) : tiles<kSource, 3, 1, 0>(rows);
    case 8: return whole ? tiles<kSource, 3, 2, 3>(rows) : tiles<kSource, 3, 2, 0>(rows);
    case 11: return tiles<kSource, 5, 1, 0>(rows);
    case 12: return tiles<kSource, 5, 2, 0>(rows);
    case 15: return tiles<kSource, 7, 1, 0>(rows);
    default: return tiles<kSource, 7, 2, 0>(rows);
  }
}

// Channels processed together: the rows under the kernel should stay in the first-level cache, and memory should be
// read in runs long enough for the processor's prefetcher.
int64_t channel_chunk(const ConvShape& s, int64_t channels) {
  constexpr int64_t kFloats = 6144, kMin = 64;
  if (channels <= kMin) return kMin;
  const int64_t pixels = s.window.in[2] * s.window.kernel[0] * s.window.kernel[1];
  return std::max(kMin, kFloats / pixels / kPanel * kPanel);
}

template <Source kSource>
void all_rows(const float* x, int64_t ring, const ConvShape& s, const PanelView& weights, const TileOutput& out,
              const RowRange& range) {
  const KernelWindow& w = s.window;
  const int64_t begin = range.first_panel * kPanel, end = std::min(s.out_channels, range.last_panel * kPanel);
  const int64_t chunk = channel_chunk(s, end - begin), reach = (w.kernel[1] - 1) * w.dilation[1];
  const bool by_tiles = takes_tiles(w);
  Rows rows{.s = s, .out = out, .weights = static_cast<const float*>(weights.data)};
  rows.panel_size = weights.depth * kPanel;
  rows.width = tile_width(w.out[2]);
  rows.ring = ring;
  for (int64_t c = begin; c < end; c += chunk) {
    rows.first_channel = c;
    rows.last_channel = std::min(end, c + chunk);
    int64_t oh = range.first_row, od = 0, n = 0;
    if (oh >= w.out[1]) {
      od = oh / w.out[1] % w.out[0];
      n = oh / w.out[1] / w.out[0];
      oh %= w.out[1];
    }
    for (int64_t left = range.last_row - range.first_row; left > 0; left -= rows.count) {
      rows.y = out.y + n * s.y.n + od * s.y.d + oh * s.y.h;
      rows.image = x + n * s.x.n;
      rows.depth = od * w.stride[0] - w.pad_begin[0];
      rows.depths = inside(rows.depth, w.kernel[0], w.dilation[0], w.in[0]);
      const int64_t h = oh * w.stride[1] - w.pad_begin[1];
      rows.kernel = inside(h, w.kernel[1], w.dilation[1], w.in[1]);
      rows.top = h + rows.kernel.begin * w.dilation[1];
      if (rows.top >= ring) rows.top %= ring;
      rows.count = 1;
      if (by_tiles && kSource == kSlab && h >= 0) {  // and the rows below it, while the kernel is inside
        const int64_t most = std::min(left, w.out[1] - oh);
        while (rows.count < most && h + rows.count * w.stride[1] + reach < w.in[1]) ++rows.count;
      }
      some_rows<kSource>(rows, by_tiles);
      oh += rows.count;
      if (oh < w.out[1]) continue;
      oh = 0;
      if (++od < w.out[0]) continue;
      od = 0;
      ++n;
    }
  }
}

void depthwise_impl(const float* x, int64_t ring, const ConvShape& s, const PanelView& weights, const TileOutput& out,
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

void depthwise_rows(const float* x, int64_t ring, const ConvShape& shape, const PanelView& weights,
                    const TileOutput& out, const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(depthwise_impl)(x, ring, shape, weights, out, range);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

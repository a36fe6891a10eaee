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
  float* y;              // the row's first pixel
  int64_t panel_size, first_channel, last_channel;
  // For each of the kernel's rows inside the image: the image's row, and the weights from a panel's start.
  int kernel_rows = 0;
  const float* image[kDepthwiseKernelRows];
  int64_t taps[kDepthwiseKernelRows];
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

// Calls fn(channel, where its weights begin, channels that count) for vectors of channels.
template <typename Fn>
HWY_INLINE void for_channels(const Row& row, const Fn& fn) {
  for (int64_t c = row.first_channel; c < row.last_channel; c += kPanel) {
    const float* weights = row.weights + c / kPanel * row.panel_size;
    const int64_t end = std::min<int64_t>(kPanel, row.last_channel - c);
    for (int64_t i = 0; i < end; i += kLanes) fn(c + i, weights + i, end - i);
  }
}

// The results of kPixels pixels, clamped.
template <int kPixels>
HWY_INLINE void store(const Row& row, int64_t ow, int64_t c, int64_t channels, const V (&sums)[kPixels]) {
  const D d;
  const V low = hn::Set(d, row.out.low), high = hn::Set(d, row.out.high);
  const int64_t step = row.s.y.w;
  float* to = row.y + ow * step + c;
  if (channels >= kLanes) {
    HWY_UNROLL(8)
    for (int t = 0; t < kPixels; ++t) hn::StoreU(max_keep_nan(low, min_keep_nan(high, sums[t])), d, to + t * step);
  } else {
    for (int t = 0; t < kPixels; ++t) {
      store_first(d, max_keep_nan(low, min_keep_nan(high, sums[t])), to + t * step, static_cast<size_t>(channels));
    }
  }
}

// kPixels neighbours under a kernel kKernel wide: each pixel of x is loaded once for all the sums it enters. At the
// border (kBorder) the first and last pixels may lie outside, fewer than the kernel is wide.
template <bool kDoubled, int kPixels, int kKernel, int kStride, bool kBorder>
HWY_NOINLINE void tile(const Row& row, int64_t ow) {
  constexpr int kSpan = (kPixels - 1) * kStride + kKernel;
  const D d;
  const Window& w = row.s.window;
  const int64_t start = ow * kStride - w.pad_begin[2], step = row.s.x.w;
  const auto first = static_cast<int>(-start), last = static_cast<int>(std::min<int64_t>(kSpan, w.in[2] - start));
  const float* bias = row.out.bias;
  const int kernel_rows = row.kernel_rows;
  for_channels(row, [&](int64_t c, const float* weights, int64_t channels) HWY_ATTR {
    V sums[kPixels];
    sums[0] = bias ? hn::LoadU(d, bias + c) : hn::Zero(d);
    HWY_UNROLL(8)
    for (int t = 1; t < kPixels; ++t) sums[t] = sums[0];
    for (int j = 0; j < kernel_rows; ++j) {
      const float* from = row.image[j] + start * step + (kDoubled ? c / 2 : c);
      const float* tap = weights + row.taps[j];
      V taps[kKernel];
      HWY_UNROLL(8)
      for (int k = 0; k < kKernel; ++k) taps[k] = hn::LoadU(d, tap + k * kPanel);
      HWY_UNROLL(32)
      for (int i = 0; i < kSpan; ++i) {
        if (kBorder && i < kKernel - 1 && i < first) continue;
        if (kBorder && i > kSpan - kKernel && i >= last) continue;
        const V v = load<kDoubled>(from + i * step);
        HWY_UNROLL(8)
        for (int k = 0; k < kKernel; ++k) {
          const int t = (i - k) / kStride;
          if (i >= k && (i - k) % kStride == 0 && t < kPixels) sums[t] = hn::MulAdd(v, taps[k], sums[t]);
        }
      }
    }
    store(row, ow, c, channels, sums);
  });
}

// Any kernel, one pixel.
template <bool kDoubled>
void pixel(const Row& row, int64_t ow) {
  const D d;
  const Window& w = row.s.window;
  const int64_t start = ow * w.stride[2] - w.pad_begin[2], step = w.dilation[2] * row.s.x.w;
  const KernelRange kw = inside(start, w.kernel[2], w.dilation[2], w.in[2]);
  for_channels(row, [&](int64_t c, const float* weights, int64_t channels) HWY_ATTR {
    V sum[1] = {row.out.bias ? hn::LoadU(d, row.out.bias + c) : hn::Zero(d)};
    for (int j = 0; j < row.kernel_rows; ++j) {
      const float* from = row.image[j] + start * row.s.x.w + (kDoubled ? c / 2 : c);
      const float* tap = weights + row.taps[j];
      for (int64_t k = kw.begin; k < kw.end; ++k) {
        sum[0] = hn::MulAdd(load<kDoubled>(from + k * step), hn::LoadU(d, tap + k * kPanel), sum[0]);
      }
    }
    store(row, ow, c, channels, sum);
  });
}

template <bool kDoubled, int kPixels, int kKernel, int kStride>
HWY_INLINE void tile_at(const Row& row, int64_t ow) {
  const Window& w = row.s.window;
  const int64_t start = ow * kStride - w.pad_begin[2];
  if (start >= 0 && start + (kPixels - 1) * kStride + kKernel <= w.in[2]) {
    tile<kDoubled, kPixels, kKernel, kStride, false>(row, ow);
  } else {
    tile<kDoubled, kPixels, kKernel, kStride, true>(row, ow);
  }
}

template <bool kDoubled, int kKernel, int kStride>
void tiles(const Row& row) {
  const int64_t size = row.s.window.out[2];
  int64_t ow = 0;
  for (; ow + 8 <= size; ow += 8) tile_at<kDoubled, 8, kKernel, kStride>(row, ow);
  if (ow + 4 <= size) {
    tile_at<kDoubled, 4, kKernel, kStride>(row, ow);
    ow += 4;
  }
  if (ow + 2 <= size) {
    tile_at<kDoubled, 2, kKernel, kStride>(row, ow);
    ow += 2;
  }
  if (ow < size) tile_at<kDoubled, 1, kKernel, kStride>(row, ow);
}

template <bool kDoubled>
void one_row(const Row& row) {
  const Window& w = row.s.window;
  const bool plain = w.dilation[2] == 1 && w.pad_begin[2] < w.kernel[2] && w.pad_end[2] < w.kernel[2];
  const int64_t kernel = plain ? w.kernel[2] : 0, stride = w.stride[2];
  if (kernel == 3 && stride == 1) return tiles<kDoubled, 3, 1>(row);
  if (kernel == 3 && stride == 2) return tiles<kDoubled, 3, 2>(row);
  if (kernel == 5 && stride == 1) return tiles<kDoubled, 5, 1>(row);
  if (kernel == 5 && stride == 2) return tiles<kDoubled, 5, 2>(row);
  if (kernel == 7 && stride == 1) return tiles<kDoubled, 7, 1>(row);
  if (kernel == 7 && stride == 2) return tiles<kDoubled, 7, 2>(row);
  for (int64_t ow = 0; ow < w.out[2]; ++ow) pixel<kDoubled>(row, ow);
}

// Channels that are done together: the rows under the kernel should stay in the first cache, and the memory be read in
// runs that the processor prefetches.
int64_t channel_chunk(const ConvShape& s) {
  constexpr int64_t kFloats = 6144, kLeast = 64;
  const int64_t pixels = s.window.in[2] * s.window.kernel[0] * s.window.kernel[1];
  return std::max(kLeast, kFloats / pixels / kPanel * kPanel);
}

// Notes the kernel's rows that lie inside the image.
void find_kernel_rows(Row& row, const float* image, int64_t d0, int64_t h0) {
  const Window& w = row.s.window;
  const KernelRange kd = inside(d0, w.kernel[0], w.dilation[0], w.in[0]);
  const KernelRange kh = inside(h0, w.kernel[1], w.dilation[1], w.in[1]);
  for (int64_t d = kd.begin; d < kd.end; ++d) {
    for (int64_t h = kh.begin; h < kh.end; ++h) {
      row.image[row.kernel_rows] = image + (d0 + d * w.dilation[0]) * row.s.x.d + (h0 + h * w.dilation[1]) * row.s.x.h;
      row.taps[row.kernel_rows++] = (d * w.kernel[1] + h) * w.kernel[2] * kPanel;
    }
  }
}

void depthwise_impl(const float* x, const ConvShape& s, const PanelMatrix& weights, const TileOutput& out,
                    int64_t first_row, int64_t last_row) {
  const Window& w = s.window;
  const int64_t chunk = channel_chunk(s);
  for (int64_t c = 0; c < s.out_channels; c += chunk) {
    for (int64_t r = first_row; r < last_row; ++r) {
      const int64_t oh = r % w.out[1], od = r / w.out[1] % w.out[0], n = r / w.out[1] / w.out[0];
      Row row{.s = s,
              .out = out,
              .weights = static_cast<const float*>(weights.data.raw()),
              .y = out.y + n * s.y.n + od * s.y.d + oh * s.y.h,
              .panel_size = weights.depth * kPanel,
              .first_channel = c,
              .last_channel = std::min(s.out_channels, c + chunk)};
      find_kernel_rows(row, x + n * s.x.n, od * w.stride[0] - w.pad_begin[0], oh * w.stride[1] - w.pad_begin[1]);
      s.out_channels == s.in_channels ? one_row<false>(row) : one_row<true>(row);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(depthwise_impl);

void depthwise_rows(const float* x, const ConvShape& shape, const PanelMatrix& weights, const TileOutput& out,
                    int64_t first_row, int64_t last_row) {
  HWY_DYNAMIC_DISPATCH(depthwise_impl)(x, shape, weights, out, first_row, last_row);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

#include "ops/cpu/conv/conv_planes.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/conv/conv_planes.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

constexpr int64_t kPanel = PanelMatrix::kPanel;
using D = hn::CappedTag<float, PanelMatrix::kPanel>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(HWY_LANES(float) < kPanel ? HWY_LANES(float) : kPanel);
constexpr int kVectors = static_cast<int>(kPanel) / kLanes;
// As in tile_gemm.
constexpr int kWidest = HWY_ARCH_X86 && kLanes <= 4 ? 4 : 8;
constexpr int kMaxVectors = kVectors > kWidest ? kWidest : kVectors;
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int kMaxRows = 10;
#else
constexpr int kMaxRows = 3;
#endif

// Some adjacent pixels of one row of the output.
struct Pixels {
  const float* x;  // the image
  const ConvShape& s;
  int64_t oh, ow;
};

// kStride, kKernel 0: taken from the window. kBorder: a window may extend beyond the image on the left or right.
// (Copying the row with zeros around it instead took a tenth of a stem's time.)
template <int kRows, int kVecs, int kStride, int kKernel, bool kBorder>
HWY_NOINLINE void tile(const Pixels& at, const float* b, const float* bias, const TileOutput& out, float* y,
                       int64_t columns) {
  const D d;
  const KernelWindow& w = at.s.window;
  const int64_t stride = kStride > 0 ? kStride : w.stride[2], kernel = kKernel > 0 ? kKernel : w.kernel[2];
  V sums[kRows][kVecs];
  HWY_UNROLL(10)
  for (int j = 0; j < kVecs; ++j) {
    const V first = bias ? hn::LoadU(d, bias + j * kLanes) : hn::Zero(d);
    HWY_UNROLL(10)
    for (int r = 0; r < kRows; ++r) sums[r][j] = first;
  }
  const int64_t h0 = at.oh * w.stride[1] - w.pad_begin[1];
  const KernelRange kh = inside(h0, w.kernel[1], 1, w.in[1]);
  const int64_t start = at.ow * stride - w.pad_begin[2];
  for (int64_t c = 0; c < at.s.in_channels; ++c) {
    for (int64_t h = kh.begin; h < kh.end; ++h) {
      const float* row = at.x + c * at.s.x.c + (h0 + h) * at.s.x.h + start;
      const float* taps = b + (c * w.kernel[1] + h) * kernel * kPanel;
      HWY_UNROLL(8)
      for (int64_t k = 0; k < kernel; ++k, taps += kPanel) {
        V weights[kVecs];
        HWY_UNROLL(10)
        for (int j = 0; j < kVecs; ++j) weights[j] = hn::LoadU(d, taps + j * kLanes);
        HWY_UNROLL(10)
        for (int r = 0; r < kRows; ++r) {
          if (kBorder && (start + r * stride + k < 0 || start + r * stride + k >= w.in[2])) continue;
          const V pixel = hn::Set(d, row[r * stride + k]);
          HWY_UNROLL(10)
          for (int j = 0; j < kVecs; ++j) sums[r][j] = hn::MulAdd(pixel, weights[j], sums[r][j]);
        }
      }
    }
  }
  const V low = hn::Set(d, out.low), high = hn::Set(d, out.high);
  HWY_UNROLL(10)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(10)
    for (int j = 0; j < kVecs; ++j) {
      const int64_t left = columns - j * kLanes;
      float* to = y + r * out.stride + j * kLanes;
      const V result = max_keep_nan(low, min_keep_nan(high, sums[r][j]));
      if (left >= kLanes) hn::StoreU(result, d, to);
      else if (left > 0) store_first(d, result, to, static_cast<size_t>(left));
    }
  }
}

// Computes `pixels` adjacent pixels in tiles of nearly equal width, for some columns.
template <int kVecs, int kStride, int kKernel>
void segment(Pixels at, int64_t pixels, const float* b, const float* bias, const TileOutput& out, float* y,
             int64_t columns) {
  while (pixels > 0) {
    const int64_t tiles = (pixels + kMaxRows - 1) / kMaxRows;
    const auto width = static_cast<int>((pixels + tiles - 1) / tiles);
    const auto go = [&]<int kRows>() {
      if constexpr (kRows <= kMaxRows) {
        const KernelWindow& w = at.s.window;
        const int64_t start = at.ow * w.stride[2] - w.pad_begin[2], span = (kRows - 1) * w.stride[2] + w.kernel[2];
        if (start >= 0 && start + span <= w.in[2]) {
          tile<kRows, kVecs, kStride, kKernel, false>(at, b, bias, out, y, columns);
        } else {
          tile<kRows, kVecs, 0, 0, true>(at, b, bias, out, y, columns);
        }
      }
    };
    switch (width) {
      case 1: go.template operator()<1>(); break;
      case 2: go.template operator()<2>(); break;
      case 3: go.template operator()<3>(); break;
      case 4: go.template operator()<4>(); break;
      case 5: go.template operator()<5>(); break;
      case 6: go.template operator()<6>(); break;
      case 7: go.template operator()<7>(); break;
      case 8: go.template operator()<8>(); break;
      case 9: go.template operator()<9>(); break;
      default: go.template operator()<10>(); break;
    }
    at.ow += width;
    y += width * out.stride;
    pixels -= width;
  }
}

void planes_impl(const float* x, const ConvShape& s, const PanelMatrix& b, const TileOutput& out,
                 const RowRange& range) {
  const KernelWindow& w = s.window;
  for (int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
    for (int64_t row = range.first_row; row < range.last_row;) {
      const int64_t ow = row % w.out[2], oh = row / w.out[2] % w.out[1], n = row / w.out_size();
      const int64_t pixels = std::min(range.last_row - row, w.out[2] - ow);
      const int64_t end = std::min(b.columns, (panel + 1) * kPanel);
      const Pixels at{x + n * s.x.n, s, oh, ow};
      const auto go = [&]<int kVecs>(int64_t column) {
        const float* weights = static_cast<const float*>(b.data.raw()) + panel * b.depth * kPanel + column % kPanel;
        const float* bias = out.bias ? out.bias + column : nullptr;
        float* y = out.y + row * out.stride + column;
        if (w.stride[2] == 2 && w.kernel[2] == 3) segment<kVecs, 2, 3>(at, pixels, weights, bias, out, y, end - column);
        else segment<kVecs, 0, 0>(at, pixels, weights, bias, out, y, end - column);
      };
      for (int64_t column = panel * kPanel; column < end;) {
        // The fewest vectors that hold the remaining columns.
        const int64_t vectors = std::min<int64_t>((end - column + kLanes - 1) / kLanes, kMaxVectors);
        if (vectors > kMaxVectors / 2) go.template operator()<kMaxVectors>(column);
        else if (kMaxVectors < 4 || vectors > kMaxVectors / 4) go.template operator()<(kMaxVectors + 1) / 2>(column);
        else go.template operator()<(kMaxVectors + 3) / 4>(column);
        column += kMaxVectors * kLanes;
      }
      row += pixels;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(planes_impl);

bool convolve_planes_takes(const ConvShape& s) {
  const KernelWindow& w = s.window;
  return w.dims <= 2 && s.groups == 1 && s.x.w == 1 && w.dilation[1] == 1 && w.dilation[2] == 1;
}

PanelMatrix pack_planes(const ConstView& weights, const ConvShape& s) {
  const int64_t depth = s.in_channels * s.window.kernel_size();
  return pack_panels(weights, depth, s.out_channels,
                     {.column = depth, .inner = depth, .inner_step = 1, .outer_step = 0});
}

void convolve_planes(const float* x, const ConvShape& shape, const PanelMatrix& b, const TileOutput& out,
                     const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(planes_impl)(x, shape, b, out, range);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

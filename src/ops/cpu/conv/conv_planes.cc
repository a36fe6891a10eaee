#include "ops/cpu/conv/conv_planes.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/conv/conv_planes.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/gemm/register_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

constexpr int64_t kPanel = Tile::kPanel;
constexpr int kLanes = Tile::kLanes;
using V = Tile::V;

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
  const Tile::D d;
  const KernelWindow& w = at.s.window;
  const int64_t stride = kStride > 0 ? kStride : w.stride[2], kernel = kKernel > 0 ? kKernel : w.kernel[2];
  Sums<kRows, kVecs> sums;
  sums.start(bias);
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
          for (int j = 0; j < kVecs; ++j) sums.v[r][j] = hn::MulAdd(pixel, weights[j], sums.v[r][j]);
        }
      }
    }
  }
  sums.store(out, y, columns);
}

// Computes `pixels` adjacent pixels in tiles of nearly equal width, for some columns.
template <int kVecs, int kStride, int kKernel>
void segment(Pixels at, int64_t pixels, const float* b, const float* bias, const TileOutput& out, float* y,
             int64_t columns) {
  constexpr int kMaxRows = Tile::max_rows(kVecs);
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
    with_rows(width, go);
    at.ow += width;
    y += width * out.stride;
    pixels -= width;
  }
}

void planes_impl(const float* x, const ConvShape& s, const PanelView& b, const TileOutput& out, const RowRange& range) {
  const KernelWindow& w = s.window;
  for (int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
    for (int64_t row = range.first_row; row < range.last_row;) {
      const int64_t ow = row % w.out[2], oh = row / w.out[2] % w.out[1], n = row / w.out_size();
      const int64_t pixels = std::min(range.last_row - row, w.out[2] - ow);
      const int64_t end = std::min(b.columns, (panel + 1) * kPanel);
      const Pixels at{x + n * s.x.n, s, oh, ow};
      const int64_t first = panel * kPanel;
      for_vectors(end - first, [&]<int kVecs>(int64_t j, int64_t columns) {
        const float* weights = static_cast<const float*>(b.data) + panel * b.depth * kPanel + j;
        const float* bias = out.bias ? out.bias + first + j : nullptr;
        float* y = out.y + row * out.stride + first + j;
        if (w.stride[2] == 2 && w.kernel[2] == 3) segment<kVecs, 2, 3>(at, pixels, weights, bias, out, y, columns);
        else segment<kVecs, 0, 0>(at, pixels, weights, bias, out, y, columns);
      });
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

void convolve_planes(const float* x, const ConvShape& shape, const PanelView& b, const TileOutput& out,
                     const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(planes_impl)(x, shape, b, out, range);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

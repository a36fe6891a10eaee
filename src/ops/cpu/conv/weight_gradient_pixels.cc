// Weight gradients of images with channels last: sums over pixels, with channels in the lanes.
#include <algorithm>
#include <cstring>

#include "ops/cpu/conv/taps_and_rows.h"
#include "ops/cpu/conv/weight_gradient_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/conv/weight_gradient_pixels.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = HWY_LANES(float);
constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64 ? 32 : 16;

HWY_INLINE V load(const float* from, int64_t channels) {
  return channels >= kLanes ? hn::LoadU(D(), from) : load_first(D(), from, static_cast<size_t>(channels));
}

// ---------------------------------------------------------------- depthwise
// One row of the output under some rows of the kernel, for a vector of channels.
struct Row {
  const KernelWindow& w;
  const float *image, *output;             // the image's first pixel under the first kernel row; the output row's first
  int64_t image_row, pixel;                // distances of the image's rows under the kernel, and of pixels
  int64_t channels;                        // valid lanes
  int64_t tap, inside_first, inside_last;  // the first tap; outputs whose taps are all inside the image
};

template <int kTaps, int kRows>
HWY_NOINLINE void add_row(const Row& r, float* sums) {
  const D d;
  V acc[kRows][kTaps];
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int k = 0; k < kTaps; ++k) acc[i][k] = hn::LoadU(d, sums + (i * kTaps + k) * kLanes);
  }
  const int64_t stride = r.w.stride[2] * r.pixel, step = r.w.dilation[2] * r.pixel;
  const int64_t origin = (r.tap * r.w.dilation[2] - r.w.pad_begin[2]) * r.pixel;
  const bool whole = r.channels >= kLanes;
  // At the borders, and where the channels do not fill a vector.
  const auto checked = [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t at = first; at < last; ++at) {
      const V g = load(r.output + at * r.pixel, r.channels);
      const int64_t from = at * r.w.stride[2] - r.w.pad_begin[2] + r.tap * r.w.dilation[2];
      HWY_UNROLL(8)
      for (int k = 0; k < kTaps; ++k) {
        const int64_t x = from + k * r.w.dilation[2];
        if (x < 0 || x >= r.w.in[2]) continue;
        const float* under = r.image + x * r.pixel;
        HWY_UNROLL(8)
        for (int i = 0; i < kRows; ++i, under += r.image_row)
          acc[i][k] = hn::MulAdd(g, load(under, r.channels), acc[i][k]);
      }
    }
  };
  const int64_t first = whole ? r.inside_first : r.w.out[2], last = whole ? r.inside_last : r.w.out[2];
  checked(0, first);
  const float *image = r.image + origin + first * stride, *output = r.output + first * r.pixel;
  for (int64_t at = first; at < last; ++at, image += stride, output += r.pixel) {
    const V g = hn::LoadU(d, output);
    const float* under = image;
    HWY_UNROLL(8)
    for (int k = 0; k < kTaps; ++k, under += step) {
      const float* line = under;
      HWY_UNROLL(8)
      for (int i = 0; i < kRows; ++i, line += r.image_row) acc[i][k] = hn::MulAdd(g, hn::LoadU(d, line), acc[i][k]);
    }
  }
  checked(last, r.w.out[2]);
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int k = 0; k < kTaps; ++k) hn::StoreU(acc[i][k], d, sums + (i * kTaps + k) * kLanes);
  }
}

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Sums of output rows [first, last) of all images; `sums` is [channels / lanes, kernel rows, taps, lanes].
void rows_impl(const WeightGradient& g, int64_t first, int64_t last, float* sums) {
  const ConvShape& s = g.shape;
  const KernelWindow& w = s.window;
  const int64_t taps = w.kernel_size(), blocks = (s.in_channels + kLanes - 1) / kLanes;
  std::fill_n(sums, blocks * taps * kLanes, 0.0f);
  for (int64_t at = first; at < last; ++at) {
    const int64_t n = at / w.out[1], oh = at % w.out[1], top = oh * w.stride[1] - w.pad_begin[1];
    const KernelRange inside_rows = inside(top, w.kernel[1], w.dilation[1], w.in[1]);
    for (int64_t tap = 0; tap < w.kernel[2]; tap += kMostTaps) {
      const int64_t count = std::min<int64_t>(kMostTaps, w.kernel[2] - tap);
      const int64_t most = rows_at_once(kRegisters, static_cast<int>(count));
      const int64_t left = tap * w.dilation[2] - w.pad_begin[2], right = left + (count - 1) * w.dilation[2];
      const int64_t in_first = std::clamp<int64_t>(floor_div(-left + w.stride[2] - 1, w.stride[2]), 0, w.out[2]);
      const int64_t in_last = std::clamp(floor_div(w.in[2] - 1 - right, w.stride[2]) + 1, in_first, w.out[2]);
      for (int64_t row = inside_rows.begin; row < inside_rows.end; row += most) {
        const int64_t rows = std::min(most, inside_rows.end - row);
        const auto add =
            pick_taps_and_rows<kRegisters>(count, rows, []<int kTaps, int kRows>() { return &add_row<kTaps, kRows>; });
        Row r{.w = w,
              .image = g.x + n * s.x.n + (top + row * w.dilation[1]) * s.x.h,
              .output = g.dy + n * s.y.n + oh * s.y.h,
              .image_row = w.dilation[1] * s.x.h,
              .pixel = s.x.w,
              .channels = 0,
              .tap = tap,
              .inside_first = in_first,
              .inside_last = in_last};
        // With fewer taps than the kernel has, rows of the sums are apart: a copy that is added.
        for (int64_t block = 0; block < blocks; ++block) {
          r.channels = std::min(kLanes, s.in_channels - block * kLanes);
          float* const to = sums + (block * taps + row * w.kernel[2] + tap) * kLanes;
          if (count == w.kernel[2]) {
            add(r, to);
          } else {
            HWY_ALIGN float part[kMostTaps * kMostRows * kLanes] = {};
            add(r, part);
            for (int64_t i = 0; i < rows * count * kLanes; ++i) {
              to[i / (count * kLanes) * w.kernel[2] * kLanes + i % (count * kLanes)] += part[i];
            }
          }
          r.image += kLanes;
          r.output += kLanes;
        }
      }
    }
  }
}

int64_t rows_floats_impl(const ConvShape& s) {
  return (s.in_channels + kLanes - 1) / kLanes * s.window.kernel_size() * kLanes;
}

// Adds up the parts, in their order.
void join_impl(const WeightGradient& g, const float* parts, int64_t count) {
  const int64_t taps = g.shape.window.kernel_size(), size = rows_floats_impl(g.shape);
  for (int64_t c = 0; c < g.shape.in_channels; c += kLanes) {
    const int64_t valid = std::min(kLanes, g.shape.in_channels - c);
    for (int64_t k = 0; k < taps; ++k) {
      const float* from = parts + (c / kLanes * taps + k) * kLanes;
      double sums[kLanes] = {};
      for (int64_t part = 0; part < count; ++part, from += size) {
        for (int64_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(from[i]);
      }
      for (int64_t i = 0; i < valid; ++i) g.dw[(c + i) * taps + k] = static_cast<float>(sums[i]);
    }
  }
}

// ---------------------------------------------------------------- dense
// C[a, b] = sum over pixels of A[pixel, a] B[pixel, b], by tiles of some rows of C and some vectors of its columns.
constexpr int kRows = kRegisters == 32 ? 8 : 4, kVectors = 3;
constexpr int64_t kPixels = 256;  // summed up in f32 before they are added to the rest

template <int kA, int kB>
HWY_NOINLINE void add_tile(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t last_channels,
                           int64_t pixels, float* sums, int64_t sums_step) {
  const D d;
  V acc[kA][kB];
  for (auto& row : acc) {
    for (V& v : row) v = hn::Zero(d);
  }
  const auto all = [&](const auto& last) HWY_ATTR {
    for (int64_t p = 0; p < pixels; ++p, a += a_step, b += b_step) {
      V columns[kB];
      HWY_UNROLL(4)
      for (int j = 0; j < kB; ++j) columns[j] = j == kB - 1 ? last(b + j * kLanes) : hn::LoadU(d, b + j * kLanes);
      HWY_UNROLL(8)
      for (int i = 0; i < kA; ++i) {
        const V row = hn::Set(d, a[i]);
        HWY_UNROLL(4)
        for (int j = 0; j < kB; ++j) acc[i][j] = hn::MulAdd(row, columns[j], acc[i][j]);
      }
    }
  };
  if (last_channels >= kLanes) all([&](const float* from) HWY_ATTR { return hn::LoadU(d, from); });
  else all([&](const float* from) HWY_ATTR { return load_first(d, from, static_cast<size_t>(last_channels)); });
  for (int i = 0; i < kA; ++i) {
    for (int j = 0; j < kB; ++j) {
      float* const to = sums + i * sums_step + j * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), acc[i][j]), d, to);
    }
  }
}

using AddTile = void (*)(const float*, int64_t, const float*, int64_t, int64_t, int64_t, float*, int64_t);
template <int kB>
AddTile tile_of(int64_t rows) {
  switch (rows) {
    case 1: return add_tile<1, kB>;
    case 2: return add_tile<2, kB>;
    case 3: return add_tile<3, kB>;
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
    case 4: return add_tile<4, kB>;
    case 5: return add_tile<5, kB>;
    case 6: return add_tile<6, kB>;
    case 7: return add_tile<7, kB>;
#endif
    default: return add_tile<kRows, kB>;
  }
}

// A product for each group and tap of the kernel: [outputs, inputs], or the other way round. Which image is in the
// lanes: the one that leaves fewer of them empty, else the wider one.
struct Product {
  const float *a, *b;
  int64_t rows, columns, padded;  // of C; `padded`: columns rounded up to whole vectors
  int64_t a_step, b_step;         // between pixels
  bool swapped;                   // C is [inputs, outputs]
  explicit Product(const WeightGradient& g) {
    const int64_t in = g.shape.in_per_group(), out = g.shape.out_per_group();
    const auto filled = [](int64_t count) {
      return static_cast<double>(count) / static_cast<double>((count + kLanes - 1) / kLanes);
    };
    swapped = filled(out) != filled(in) ? filled(out) > filled(in) : out > in;
    a = swapped ? g.x : g.dy;
    b = swapped ? g.dy : g.x;
    rows = swapped ? in : out;
    columns = swapped ? out : in;
    padded = (columns + kLanes - 1) / kLanes * kLanes;
    a_step = swapped ? g.shape.in_channels : g.shape.out_channels;
    b_step = swapped ? g.shape.out_channels : g.shape.in_channels;
  }
  int64_t across() const { return (padded / kLanes + kVectors - 1) / kVectors; }
  int64_t tiles() const { return (rows + kRows - 1) / kRows * across(); }  // of one product
};

int64_t product_floats_impl(const WeightGradient& g) {
  const Product c(g);
  return g.shape.groups * g.shape.window.kernel_size() * c.rows * c.padded;
}
int64_t product_tiles_impl(const WeightGradient& g) {
  return g.shape.groups * g.shape.window.kernel_size() * Product(g).tiles();
}

// Some adjacent pixels of the output, and those of the image under one tap of the kernel.
struct Run {
  int64_t count, output, image;  // elements from the first to these pixels
  int64_t image_step;            // between the image's pixels
};

// Calls fn(run) for the pixels of the output whose tap is inside the image, at most kPixels at a time.
template <typename Fn>
HWY_INLINE void for_runs(const ConvShape& s, int64_t tap, const Fn& fn) {
  const KernelWindow& w = s.window;
  const auto pieces = [&](int64_t count, int64_t output, int64_t image, int64_t step) HWY_ATTR {
    for (int64_t p = 0; p < count; p += kPixels) {
      fn(Run{std::min(kPixels, count - p), output + p * s.out_channels, image + p * step, step});
    }
  };
  if (s.is_pointwise()) return pieces(s.batch * w.out_size(), 0, 0, s.in_channels);
  const int64_t kh = tap / w.kernel[2], left = tap % w.kernel[2] * w.dilation[2] - w.pad_begin[2];
  const int64_t first = std::clamp<int64_t>(floor_div(-left + w.stride[2] - 1, w.stride[2]), 0, w.out[2]);
  const int64_t last = std::clamp(floor_div(w.in[2] - 1 - left, w.stride[2]) + 1, first, w.out[2]);
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t h = 0; h < w.out[1]; ++h) {
      const int64_t row = h * w.stride[1] - w.pad_begin[1] + kh * w.dilation[1];
      if (row < 0 || row >= w.in[1]) continue;
      pieces(last - first, n * s.y.n + h * s.y.h + first * s.y.w,
             n * s.x.n + row * s.x.h + (first * w.stride[2] + left) * s.x.w, w.stride[2] * s.x.w);
    }
  }
}

void product_impl(const WeightGradient& g, int64_t first, int64_t last, float* sums) {
  const Product c(g);
  const int64_t taps = g.shape.window.kernel_size(), tiles = c.tiles();
  struct Tile {
    int64_t row, rows, column, vectors, valid;
  };
  const auto tile_at = [&](int64_t tile) {
    const int64_t row = tile / c.across() * kRows, column = tile % c.across() * kVectors * kLanes;
    const int64_t vectors = std::min<int64_t>(kVectors, (c.padded - column) / kLanes);
    const int64_t last_column = column + (vectors - 1) * kLanes;
    return Tile{row, std::min<int64_t>(kRows, c.rows - row), column, vectors, c.columns - last_column};
  };
  while (first < last) {  // the tiles of one product after the other
    const int64_t product = first / tiles, group = product / taps, tap = product % taps;
    const int64_t begin = first - product * tiles, end = std::min(last - product * tiles, tiles);
    float* const to = sums + product * c.rows * c.padded;
    for (int64_t tile = begin; tile < end; ++tile) {
      const Tile t = tile_at(tile);
      for (int64_t i = 0; i < t.rows; ++i)
        std::fill_n(to + (t.row + i) * c.padded + t.column, t.vectors * kLanes, 0.0f);
    }
    for_runs(g.shape, tap, [&](const Run& run) HWY_ATTR {
      const float* a = c.a + (c.swapped ? run.image : run.output) + group * c.rows;
      const float* b = c.b + (c.swapped ? run.output : run.image) + group * c.columns;
      const int64_t a_step = c.swapped ? run.image_step : c.a_step, b_step = c.swapped ? c.b_step : run.image_step;
      for (int64_t tile = begin; tile < end; ++tile) {
        const Tile t = tile_at(tile);
        const AddTile add = t.vectors == 1   ? tile_of<1>(t.rows)
                            : t.vectors == 2 ? tile_of<2>(t.rows)
                                             : tile_of<3>(t.rows);
        add(a + t.row, a_step, b + t.column, b_step, t.valid, run.count, to + t.row * c.padded + t.column, c.padded);
      }
    });
    for (int64_t tile = begin; tile < end; ++tile) {
      const Tile t = tile_at(tile);
      const int64_t end_column = std::min(c.columns, t.column + t.vectors * kLanes);
      for (int64_t i = t.row; i < t.row + t.rows; ++i) {
        for (int64_t j = t.column; j < end_column; ++j) {
          const int64_t o = group * g.shape.out_per_group() + (c.swapped ? j : i), in = c.swapped ? i : j;
          g.dw[(o * g.shape.in_per_group() + in) * taps + tap] = to[i * c.padded + j];
        }
      }
    }
    first = product * tiles + end;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(rows_impl);
HWY_EXPORT(rows_floats_impl);
HWY_EXPORT(join_impl);
HWY_EXPORT(product_floats_impl);
HWY_EXPORT(product_tiles_impl);
HWY_EXPORT(product_impl);

int64_t depthwise_pixels_floats(const ConvShape& shape) { return HWY_DYNAMIC_DISPATCH(rows_floats_impl)(shape); }
void depthwise_pixels_rows(const WeightGradient& g, int64_t first, int64_t last, float* sums) {
  HWY_DYNAMIC_DISPATCH(rows_impl)(g, first, last, sums);
}
void depthwise_pixels_join(const WeightGradient& g, const float* parts, int64_t count) {
  HWY_DYNAMIC_DISPATCH(join_impl)(g, parts, count);
}

int64_t dense_pixels_floats(const WeightGradient& g) { return HWY_DYNAMIC_DISPATCH(product_floats_impl)(g); }
int64_t dense_pixels_tiles(const WeightGradient& g) { return HWY_DYNAMIC_DISPATCH(product_tiles_impl)(g); }
void dense_pixels(const WeightGradient& g, int64_t first, int64_t last, float* sums) {
  HWY_DYNAMIC_DISPATCH(product_impl)(g, first, last, sums);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

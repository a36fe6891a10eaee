#include "ops/cpu/gemm/tile_gemm.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/gemm/tile_gemm.cc"
#include "hwy/foreach_target.h"
// Behind foreach_target.h, as Highway asks.
#include "ops/cpu/gemm/pair_sums-inl.h"
#include "ops/cpu/gemm/register_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparkpilot {
namespace HWY_NAMESPACE {
namespace {  // the names are this file's own, in every target

constexpr int64_t kPanel = Tile::kPanel;
constexpr int kMaxRows = Tile::kMaxRows;

// The sums of a tile: this many whole vectors, or...
template <int kVecs>
struct Vectors {
  static constexpr int kVectors = kVecs, kHighest = Tile::max_rows(kVecs);
  template <int kRows>
  using Of = Sums<kRows, kVecs>;
};
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// ...pairs of depths for this many times eight columns.
template <int kEights>
struct Pairs {
  static constexpr int kVectors = (kEights + 1) / 2, kHighest = kEights > 2 ? 8 : kMaxRows;
  template <int kRows>
  using Of = PairSums<kRows, kEights>;
};
#endif

// Rows at a constant stride.
struct PlainRows {
  struct Scratch {};
  const float* a;
  int64_t stride, depth;
  int64_t steps() const { return 1; }
  int64_t step_depth() const { return depth; }
  template <int kRows>
  HWY_INLINE void begin(int64_t, Scratch&) const {}
  template <int kRows>
  HWY_INLINE void point(int64_t row, Scratch&, const float* (&rows)[kRows]) const {
    for (int r = 0; r < kRows; ++r) rows[r] = a + (row + r) * stride;
  }
};

// Iterates over output positions and gives the start of each one's window.
struct Walk {
  const KernelWindow& w;
  int64_t n, od, oh, ow;
  Walk(const KernelWindow& window, int64_t row)
      : w(window),
        n(row / w.out_size()),
        od(row / w.out[2] / w.out[1] % w.out[0]),
        oh(row / w.out[2] % w.out[1]),
        ow(row % w.out[2]) {}
  HWY_INLINE KernelWindow::Dims start() const {
    return {od * w.stride[0] - w.pad_begin[0], oh * w.stride[1] - w.pad_begin[1], ow * w.stride[2] - w.pad_begin[2]};
  }
  HWY_INLINE void next() {
    if (++ow < w.out[2]) return;
    ow = 0;
    if (++oh < w.out[1]) return;
    oh = 0;
    if (++od < w.out[0]) return;
    od = 0;
    ++n;
  }
};

// The windows of a tile's output positions, and a position of the kernel.
struct Windows {
  KernelWindow::Dims start[kMaxRows];
  int64_t at[kMaxRows];  // of the windows' first pixels from the image's beginning, which some lie before
  bool inside = true;    // all of them are inside the image
  int64_t kd = 0, kh = 0, kw = 0;

  template <int kRows>
  HWY_INLINE void begin(const ConvShape& s, int64_t row) {
    const KernelWindow& w = s.window;
    Walk walk(w, row);
    for (int r = 0; r < kRows; ++r, walk.next()) {
      start[r] = walk.start();
      at[r] = walk.n * s.x.n + start[r][0] * s.x.d + start[r][1] * s.x.h + start[r][2] * s.x.w;
      for (size_t k = 0; k < 3; ++k) {
        inside = inside && start[r][k] >= 0 && start[r][k] + (w.kernel[k] - 1) * w.dilation[k] < w.in[k];
      }
    }
  }
  // Of the pixel under the kernel's position, from the window's first.
  HWY_INLINE int64_t offset(const ConvShape& s) const {
    const KernelWindow& w = s.window;
    return kd * w.dilation[0] * s.x.d + kh * w.dilation[1] * s.x.h + kw * w.dilation[2] * s.x.w;
  }
  // Whether the row of the image under the kernel's is one.
  HWY_INLINE bool has_row(const KernelWindow& w, int r) const {
    const int64_t d = start[r][0] + kd * w.dilation[0], h = start[r][1] + kh * w.dilation[1];
    return d >= 0 && d < w.in[0] && h >= 0 && h < w.in[1];
  }
  HWY_INLINE void next_row(const KernelWindow& w) {
    if (++kh < w.kernel[1]) return;
    kh = 0;
    ++kd;
  }
};

// Rows made of the image's pixels under each position of the kernel in turn.
struct PixelRows {
  using Scratch = Windows;
  const float* x;
  const ConvShape& s;
  const float* zeros;
  int64_t steps() const { return s.window.kernel_size(); }
  int64_t step_depth() const { return s.in_per_group(); }
  template <int kRows>
  HWY_INLINE void begin(int64_t row, Windows& windows) const {
    windows.begin<kRows>(s, row);
  }
  template <int kRows>
  HWY_INLINE void point(int64_t, Windows& windows, const float* (&rows)[kRows]) const {
    const KernelWindow& w = s.window;
    const int64_t offset = windows.offset(s);
    if (windows.inside) {
      for (int r = 0; r < kRows; ++r) rows[r] = x + (windows.at[r] + offset);
    } else {
      for (int r = 0; r < kRows; ++r) {
        const int64_t column = windows.start[r][2] + windows.kw * w.dilation[2];
        const bool there = windows.has_row(w, r) && column >= 0 && column < w.in[2];
        rows[r] = there ? x + (windows.at[r] + offset) : zeros;
      }
    }
    if (++windows.kw < w.kernel[2]) return;
    windows.kw = 0;
    windows.next_row(w);
  }
};

// The same for dense pixels and few channels: one row of the kernel at a time, since its pixels are contiguous. At the
// image's border the row is assembled in scratch memory.
struct KernelRows {
  static constexpr int64_t kPatch = kConvolveZeros;
  struct Scratch {
    Windows windows;
    float patch[kMaxRows][kPatch];
  };
  const float* x;
  const ConvShape& s;
  const float* zeros;  // kPatch of them
  static bool fits(const ConvShape& s) {
    const KernelWindow& w = s.window;
    return w.kernel[2] > 1 && w.dilation[2] == 1 && s.groups == 1 && w.kernel[2] * s.in_channels <= kPatch;
  }
  int64_t steps() const { return s.window.kernel[0] * s.window.kernel[1]; }
  int64_t step_depth() const { return s.window.kernel[2] * s.in_channels; }
  template <int kRows>
  HWY_INLINE void begin(int64_t row, Scratch& scratch) const {
    scratch.windows.begin<kRows>(s, row);
  }
  template <int kRows>
  HWY_INLINE void point(int64_t, Scratch& scratch, const float* (&rows)[kRows]) const {
    const KernelWindow& w = s.window;
    Windows& windows = scratch.windows;
    const int64_t offset = windows.offset(s);
    if (windows.inside) {
      for (int r = 0; r < kRows; ++r) rows[r] = x + (windows.at[r] + offset);
    } else {
      for (int r = 0; r < kRows; ++r) {
        const int64_t column = windows.start[r][2];
        if (!windows.has_row(w, r)) rows[r] = zeros;
        else if (column >= 0 && column + w.kernel[2] <= w.in[2]) rows[r] = x + (windows.at[r] + offset);
        else rows[r] = patch(windows.at[r] + offset, column, scratch.patch[r]);
      }
    }
    windows.next_row(w);
  }
  const float* patch(int64_t at, int64_t column, float* to) const {
    for (int64_t k = 0; k < s.window.kernel[2]; ++k) {
      const bool there = column + k >= 0 && column + k < s.window.in[2];
      std::copy_n(there ? x + (at + k * s.x.w) : zeros, s.in_channels, to + k * s.in_channels);
    }
    return to;
  }
};

template <typename TileShape, int kRows, typename W, typename Rows>
HWY_NOINLINE void tile(const Rows& source, int64_t row, const W* b, const float* bias, const TileOutput& out, float* y,
                       int64_t columns) {
  typename TileShape::template Of<kRows> sums;
  sums.start(bias);
  const float* rows[kRows];
  typename Rows::Scratch scratch;
  source.template begin<kRows>(row, scratch);
  const int64_t depth = source.step_depth();
  for (int64_t s = 0; s < source.steps(); ++s, b += depth * kPanel) {
    source.point(row, scratch, rows);
    sums.add(rows, depth, b);
  }
  sums.store(out, y, columns);
}

// Vectors of one or two rows whose four partial sums stay in registers.
template <int kRows>
constexpr int kFewVectors = HWY_ARCH_ARM_A64 ? 4 / kRows : Tile::kMaxVectors;

// If the whole product has one or two rows: four partial sums per element hide the latency of the additions.
template <int kRows, int kVecs, typename W>
HWY_NOINLINE void tile_few(const PlainRows& source, int64_t row, const W* b, const float* bias, const TileOutput& out,
                           float* y, int64_t columns) {
  Sums<kRows, kVecs> s0, s1, s2, s3;
  s0.start(bias);
  s1.start(nullptr);
  s2.start(nullptr);
  s3.start(nullptr);
  const float* rows[kRows];
  PlainRows::Scratch scratch;
  source.point(row, scratch, rows);
  int64_t p = 0;
#if SPARKPILOT_NEON
  for (; p + 4 <= source.depth; p += 4) {
    Tile::V x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = hn::LoadU(Tile::D(), rows[r] + p);
    s0.template lane_step<0>(x, b);
    s1.template lane_step<1>(x, b);
    s2.template lane_step<2>(x, b);
    s3.template lane_step<3>(x, b);
  }
#endif
  for (; p + 4 <= source.depth; p += 4, b += 4 * kPanel) {
    s0.step(rows, p, b);
    s1.step(rows, p + 1, b + kPanel);
    s2.step(rows, p + 2, b + 2 * kPanel);
    s3.step(rows, p + 3, b + 3 * kPanel);
  }
  for (; p < source.depth; ++p, b += kPanel) s0.step(rows, p, b);
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kVecs; ++j) {
      s0.v[r][j] = hn::Add(hn::Add(s0.v[r][j], s1.v[r][j]), hn::Add(s2.v[r][j], s3.v[r][j]));
    }
  }
  s0.store(out, y, columns);
}

template <int kRows, int kVecs, typename W>
void few_rows(const PlainRows& source, int64_t row, const W* b, const float* bias, const TileOutput& out, float* y,
              int64_t columns) {
  constexpr int kPart = std::min(kVecs, kFewVectors<kRows>);
  for (int64_t j = 0; j < columns; j += kPart * Tile::kLanes) {
    tile_few<kRows, kPart>(source, row, b + j, bias ? bias + j : nullptr, out, y + j, columns - j);
  }
}

// The weights that are needed next, which otherwise come from memory while nothing is computed: asks for a part of them
// with each tile, into the second-level cache.
struct Ahead {
  // Half of a small second-level cache. Weights that fit are there after the first rows, and asking takes time.
  static constexpr int64_t kStays = 256 << 10;

  const std::byte *at = nullptr, *end = nullptr;

  HWY_INLINE void ask(int64_t bytes) {
    constexpr int64_t kLine = 64;
    for (const std::byte* stop = at + std::min<int64_t>(bytes, end - at); at < stop; at += kLine) {
      __builtin_prefetch(at, 0, 2);
    }
  }
};

// One panel (or its last columns) for rows [first, last), in tiles of nearly equal height.
template <typename TileShape, typename W, typename Rows>
void panel_rows(const Rows& source, const W* b, const float* bias, const TileOutput& out, int64_t column,
                int64_t columns, const RowRange& range, Ahead ahead) {
  const int64_t all = range.last_row - range.first_row, tiles = (all + TileShape::kHighest - 1) / TileShape::kHighest;
  if (tiles == 0) return;
  const int64_t low = all / tiles, end_of_high = range.first_row + all % tiles * (low + 1);
  const int64_t with_each = (ahead.end - ahead.at) / tiles + 64;
  for (int64_t row = range.first_row; row < range.last_row;) {
    const int64_t height = row < end_of_high ? low + 1 : low;
    float* y = out.y + row * out.stride + column;
    ahead.ask(with_each);
    const auto go = [&]<int kRows>() {
      if constexpr (kRows <= TileShape::kHighest) tile<TileShape, kRows>(source, row, b, bias, out, y, columns);
    };
    with_rows(height, go);
    row += height;
  }
}

// Calls fn.operator()<TileShape>(column, columns) for a panel's columns, in the fewest vectors that hold them.
template <typename Fn>
HWY_INLINE void for_parts(int64_t columns, const Fn& fn) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if (columns <= 8) return fn.template operator()<Pairs<1>>(0, columns);
  if (columns <= 16) return fn.template operator()<Pairs<2>>(0, columns);
  if (columns <= 24) return fn.template operator()<Pairs<3>>(0, columns);
#endif
  for_vectors(columns, [&]<int kVecs>(int64_t j, int64_t left) { fn.template operator()<Vectors<kVecs>>(j, left); });
}

// `data` is that of panel 0.
template <typename W, typename Rows>
void all_panels(const Rows& source, const W* data, int64_t depth, int64_t all_columns, const TileOutput& out,
                const RowRange& range, bool few) {
  const int64_t panel_bytes = depth * kPanel * static_cast<int64_t>(sizeof(W));
  const bool come_from_memory =
      range.first_row == 0 || (range.last_panel - range.first_panel) * panel_bytes > Ahead::kStays;
  for (int64_t panel = range.first_panel; panel < range.last_panel; ++panel) {
    const int64_t first = panel * kPanel;
    for_parts(std::min(kPanel, all_columns - first), [&]<typename TileShape>(int64_t j, int64_t columns) {
      const W* weights = data + panel * depth * kPanel + j;
      const float* bias = out.bias ? out.bias + first + j : nullptr;
      Ahead ahead;
      if (come_from_memory && panel + 1 < range.last_panel) {
        ahead.at = reinterpret_cast<const std::byte*>(data + (panel + 1) * depth * kPanel);
        ahead.end = reinterpret_cast<const std::byte*>(data + (panel + 2) * depth * kPanel);
      }
      if constexpr (std::is_same_v<Rows, PlainRows>) {
        float* y = out.y + range.first_row * out.stride + first + j;
        const int64_t rows = range.last_row - range.first_row;
        if (few && rows == 1) {
          few_rows<1, TileShape::kVectors>(source, range.first_row, weights, bias, out, y, columns);
          return;
        }
        if (few && rows == 2) {
          few_rows<2, TileShape::kVectors>(source, range.first_row, weights, bias, out, y, columns);
          return;
        }
      }
      // Other weights are not packed like that (packed_dtype), and each instantiation takes seconds to compile.
      if constexpr (!std::is_same_v<W, BFloat16>)
        panel_rows<TileShape>(source, weights, bias, out, first + j, columns, range, ahead);
    });
  }
}

void multiply_impl(const float* a, int64_t lda, const PanelView& b, const TileOutput& out, const RowRange& range,
                   bool few) {
  dispatch(TypeList<float, Half, BFloat16>{}, b.dtype, [&]<typename W>() {
    all_panels(PlainRows{a, lda, b.depth}, static_cast<const W*>(b.data), b.depth, b.columns, out, range, few);
  });
}

void multiply_panel_impl(const float* a, int64_t lda, const float* panel, int64_t depth, int64_t columns,
                         const TileOutput& out, const RowRange& range) {
  all_panels(PlainRows{a, lda, depth}, panel - range.first_panel * depth * kPanel, depth, columns, out, range, false);
}

void convolve_impl(const float* x, const ConvShape& shape, const float* zeros, const PanelView& b,
                   const TileOutput& out, const RowRange& range) {
  const auto* data = static_cast<const float*>(b.data);
  if (KernelRows::fits(shape)) all_panels(KernelRows{x, shape, zeros}, data, b.depth, b.columns, out, range, false);
  else all_panels(PixelRows{x, shape, zeros}, data, b.depth, b.columns, out, range, false);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(multiply_impl);
HWY_EXPORT(multiply_panel_impl);
HWY_EXPORT(convolve_impl);

void multiply_rows(const float* a, int64_t lda, const PanelView& b, const TileOutput& out, const RowRange& range,
                   bool few) {
  HWY_DYNAMIC_DISPATCH(multiply_impl)(a, lda, b, out, range, few);
}

void multiply_panel(const float* a, int64_t lda, const float* panel, int64_t depth, int64_t columns,
                    const TileOutput& out, const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(multiply_panel_impl)(a, lda, panel, depth, columns, out, range);
}

void convolve_rows(const float* x, const ConvShape& shape, const float* zeros, const PanelView& b,
                   const TileOutput& out, const RowRange& range) {
  HWY_DYNAMIC_DISPATCH(convolve_impl)(x, shape, zeros, b, out, range);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

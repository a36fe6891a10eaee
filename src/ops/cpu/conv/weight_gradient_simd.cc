#include "ops/cpu/conv/weight_gradient_simd.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/conv/taps_and_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/conv/weight_gradient_simd.cc"
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
// Products that a lane adds up in f32: the error of a sum grows with it.
constexpr int64_t kMostSteps = 512;

int64_t rounded_up(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

double sum_of(V v) { return static_cast<double>(hn::GetLane(hn::SumOfLanes(D(), v))); }

// ---------------------------------------------------------------- depthwise
// A plane of the image with its padding, each row apart in `stride` phases: element j of the padded row is element
// j / stride of phase j % stride. So the elements under one tap of adjacent windows are adjacent, whatever the stride.
// Rows of the output's plane end with zeros up to a whole vector.
struct Planes {
  int64_t phases, phase_size, row_size, rows;  // of the image; row_size = phases * phase_size
  int64_t out_width;                           // of the output's rows

  explicit Planes(const KernelWindow& w) {
    phases = w.stride[2];
    out_width = rounded_up(w.out[2]);
    phase_size = out_width + (w.kernel[2] - 1) * w.dilation[2] / phases + 1;
    row_size = phases * phase_size;
    rows = (w.out[1] - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
  }
  int64_t image_floats() const { return rounded_up(rows * row_size); }
  int64_t output_floats(const KernelWindow& w) const { return w.out[1] * out_width; }
};

void copy_image(const KernelWindow& w, const Planes& p, const float* from, int64_t row_step, float* to) {
  for (int64_t row = 0; row < p.rows; ++row, to += p.row_size) {
    std::memset(to, 0, static_cast<size_t>(p.row_size) * sizeof(float));
    const int64_t h = row - w.pad_begin[1];
    if (h < 0 || h >= w.in[1]) continue;
    const float* line = from + h * row_step;
    // Padded element pad + i, for the elements that any phase has room for.
    const int64_t count = std::min(w.in[2], p.row_size - w.pad_begin[2]);
    if (p.phases == 1) {
      if (count > 0) std::memcpy(to + w.pad_begin[2], line, static_cast<size_t>(count) * sizeof(float));
      continue;
    }
    int64_t phase = w.pad_begin[2] % p.phases, at = w.pad_begin[2] / p.phases;
    for (int64_t i = 0; i < count; ++i) {
      to[phase * p.phase_size + at] = line[i];
      if (++phase == p.phases) phase = 0, ++at;
    }
  }
}

// Adds the products of output rows [first, last) with the image under kTaps taps of kRows rows of the kernel. `image`
// is where the first of these taps reads for the first output; `taps` the distances of the others in a row.
struct Rows {
  const float *image, *output;
  int64_t first, last, width;
  int64_t image_step, output_step;  // from one output row to the next
  int64_t tap_step;                 // from one row of the kernel to the next
  const int64_t* taps;
};

template <int kTaps, int kRows>
HWY_NOINLINE void add_products(const Rows& r, float* sums) {
  const D d;
  V acc[kRows][kTaps];
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int k = 0; k < kTaps; ++k) acc[i][k] = hn::Load(d, sums + (i * kTaps + k) * kLanes);
  }
  const float *image = r.image + r.first * r.image_step, *output = r.output + r.first * r.output_step;
  for (int64_t row = r.first; row < r.last; ++row, image += r.image_step, output += r.output_step) {
    for (int64_t at = 0; at < r.width; at += kLanes) {
      const V g = hn::LoadU(d, output + at);
      HWY_UNROLL(8)
      for (int k = 0; k < kTaps; ++k) {
        const float* under = image + r.taps[k] + at;
        HWY_UNROLL(8)
        for (int i = 0; i < kRows; ++i, under += r.tap_step) {
          acc[i][k] = hn::MulAdd(g, hn::LoadU(d, under), acc[i][k]);
        }
      }
    }
  }
  HWY_UNROLL(8)
  for (int i = 0; i < kRows; ++i) {
    HWY_UNROLL(8)
    for (int k = 0; k < kTaps; ++k) hn::Store(acc[i][k], d, sums + (i * kTaps + k) * kLanes);
  }
}

// The lanes' sums of one block of the kernel, in memory between planes.
struct Block {
  int64_t row, rows, tap, taps, sums;
};

// Calls fn(block) for blocks of the kernel whose sums fit in registers.
template <typename Fn>
void for_blocks(const KernelWindow& w, const Fn& fn) {
  int64_t sums = 0;
  for (int64_t tap = 0; tap < w.kernel[2]; tap += kMostTaps) {
    const int64_t taps = std::min<int64_t>(kMostTaps, w.kernel[2] - tap);
    const int64_t most = rows_at_once(kRegisters, static_cast<int>(taps));
    const int64_t parts = (w.kernel[1] + most - 1) / most;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t row = w.kernel[1] * part / parts, rows = w.kernel[1] * (part + 1) / parts - row;
      fn(Block{row, rows, tap, taps, sums});
      sums += rows * taps * kLanes;
    }
  }
}

// Adds what the lanes have to the totals of the weights.
void spill(const KernelWindow& w, float* sums, double* totals) {
  const D d;
  for_blocks(w, [&](const Block& b) HWY_ATTR {
    for (int64_t i = 0; i < b.rows * b.taps; ++i) {
      float* const lanes = sums + b.sums + i * kLanes;
      totals[(b.row + i / b.taps) * w.kernel[2] + b.tap + i % b.taps] += sum_of(hn::Load(d, lanes));
      hn::Store(hn::Zero(d), d, lanes);
    }
  });
}

int64_t scratch_impl(const ConvShape& s) {
  const Planes p(s.window);
  const int64_t taps = s.window.kernel_size();
  const int64_t floats = taps * kLanes + p.image_floats() + rounded_up(p.output_floats(s.window));
  return (taps * static_cast<int64_t>(sizeof(double)) + 63) / 64 * 64 + floats * static_cast<int64_t>(sizeof(float));
}

void depthwise_impl(const WeightGradient& g, int64_t first, int64_t last, std::byte* scratch) {
  const ConvShape& s = g.shape;
  const KernelWindow& w = s.window;
  const Planes p(w);
  const int64_t taps = w.kernel_size(), row_steps = p.out_width / kLanes;
  auto* totals = reinterpret_cast<double*>(scratch);
  auto* sums = reinterpret_cast<float*>(scratch + (taps * static_cast<int64_t>(sizeof(double)) + 63) / 64 * 64);
  float* const image = sums + taps * kLanes;
  float* const padded = image + p.image_floats();
  int64_t offsets[kMostTaps] = {};
  for (int64_t o = first; o < last; ++o) {
    std::fill_n(totals, taps, 0.0);
    std::fill_n(sums, taps * kLanes, 0.0f);
    int64_t steps = 0;
    for (int64_t n = 0; n < s.batch; ++n) {
      copy_image(w, p, g.x + n * s.x.n + o / s.out_per_group() * s.x.c, s.x.h, image);
      const float* output = g.dy + n * s.y.n + o * s.y.c;
      if (p.out_width != w.out[2]) {
        for (int64_t row = 0; row < w.out[1]; ++row) {
          float* const to = padded + row * p.out_width;
          std::copy_n(output + row * s.y.h, w.out[2], to);
          std::fill(to + w.out[2], to + p.out_width, 0.0f);
        }
        output = padded;
      }
      for (int64_t row = 0; row < w.out[1];) {
        const int64_t room = std::max<int64_t>(1, (kMostSteps - steps) / row_steps);
        const int64_t end = std::min(w.out[1], row + room);
        for_blocks(w, [&](const Block& b) {
          for (int64_t k = 0; k < b.taps; ++k) {
            const int64_t at = (b.tap + k) * w.dilation[2];
            offsets[k] = at % p.phases * p.phase_size + at / p.phases;
          }
          const Rows rows{.image = image + b.row * w.dilation[1] * p.row_size,
                          .output = output,
                          .first = row,
                          .last = end,
                          .width = p.out_width,
                          .image_step = w.stride[1] * p.row_size,
                          .output_step = output == padded ? p.out_width : s.y.h,
                          .tap_step = w.dilation[1] * p.row_size,
                          .taps = offsets};
          const auto add = pick_taps_and_rows<kRegisters>(
              b.taps, b.rows, []<int kTaps, int kRows>() { return &add_products<kTaps, kRows>; });
          add(rows, sums + b.sums);
        });
        steps += (end - row) * row_steps;
        row = end;
        if (steps < kMostSteps) continue;
        spill(w, sums, totals);
        steps = 0;
      }
    }
    spill(w, sums, totals);
    for (int64_t k = 0; k < taps; ++k) g.dw[o * taps + k] = static_cast<float>(totals[k]);
  }
}

// ---------------------------------------------------------------- 1x1
constexpr int kOutputs = kRegisters == 32 ? 4 : 3, kInputs = kRegisters == 32 ? 6 : 3;
constexpr int64_t kPixels = 1024;  // read at a time: rows of a tile stay in the first-level cache

// Adds the products of `count` pixels of a tile's rows to its sums.
template <int kO, int kI>
HWY_NOINLINE void add_tile(const float* dy, int64_t dy_step, const float* x, int64_t x_step, int64_t count,
                           double* sums, int64_t sums_step) {
  const D d;
  V acc[kO][kI];
  for (auto& row : acc) {
    for (V& v : row) v = hn::Zero(d);
  }
  int64_t at = 0;
  const auto add = [&](const auto& load) HWY_ATTR {
    V image[kI];
    HWY_UNROLL(8)
    for (int i = 0; i < kI; ++i) image[i] = load(x + i * x_step + at);
    HWY_UNROLL(8)
    for (int o = 0; o < kO; ++o) {
      const V g = load(dy + o * dy_step + at);
      HWY_UNROLL(8)
      for (int i = 0; i < kI; ++i) acc[o][i] = hn::MulAdd(g, image[i], acc[o][i]);
    }
  };
  for (; at + kLanes <= count; at += kLanes) add([&](const float* from) HWY_ATTR { return hn::LoadU(d, from); });
  if (at < count) {
    const auto left = static_cast<size_t>(count - at);
    add([&](const float* from) HWY_ATTR { return load_first(d, from, left); });
  }
  for (int o = 0; o < kO; ++o) {
    for (int i = 0; i < kI; ++i) sums[o * sums_step + i] += sum_of(acc[o][i]);
  }
}

template <int kO>
void add_tile_of(int64_t inputs, const float* dy, int64_t dy_step, const float* x, int64_t x_step, int64_t count,
                 double* sums, int64_t sums_step) {
  const auto rest = [&]<int kI>() { add_tile<kO, kI>(dy, dy_step, x, x_step, count, sums, sums_step); };
  switch (inputs) {
    case 1: return rest.template operator()<1>();
    case 2: return rest.template operator()<2>();
    case 3: return rest.template operator()<3>();
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
    case 4: return rest.template operator()<4>();
    case 5: return rest.template operator()<5>();
#endif
    default: return rest.template operator()<kInputs>();
  }
}

int64_t tiles_impl(const ConvShape& s) {
  return ((s.out_channels + kOutputs - 1) / kOutputs) * ((s.in_channels + kInputs - 1) / kInputs);
}

void pointwise_impl(const WeightGradient& g, int64_t first, int64_t last, double* sums) {
  const ConvShape& s = g.shape;
  const int64_t pixels = s.window.out_size(), across = (s.in_channels + kInputs - 1) / kInputs;
  // Each tile's own sums: what lies between two tiles of a row belongs to other tiles.
  const auto for_tiles = [&](const auto& fn) {
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t o = tile / across * kOutputs, i = tile % across * kInputs;
      fn(o, std::min<int64_t>(kOutputs, s.out_channels - o), i, std::min<int64_t>(kInputs, s.in_channels - i));
    }
  };
  for_tiles([&](int64_t o, int64_t outputs, int64_t i, int64_t inputs) {
    for (int64_t k = 0; k < outputs; ++k) std::fill_n(sums + (o + k) * s.in_channels + i, inputs, 0.0);
  });
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t at = 0; at < pixels; at += kPixels) {
      const int64_t count = std::min(kPixels, pixels - at);
      for_tiles([&](int64_t o, int64_t outputs, int64_t i, int64_t inputs) {
        const float *dy = g.dy + n * s.y.n + o * s.y.c + at, *x = g.x + n * s.x.n + i * s.x.c + at;
        double* const to = sums + o * s.in_channels + i;
        if (outputs == kOutputs) add_tile_of<kOutputs>(inputs, dy, s.y.c, x, s.x.c, count, to, s.in_channels);
        else if (outputs == 1) add_tile_of<1>(inputs, dy, s.y.c, x, s.x.c, count, to, s.in_channels);
        else if (outputs == 2) add_tile_of<2>(inputs, dy, s.y.c, x, s.x.c, count, to, s.in_channels);
        else add_tile_of<3>(inputs, dy, s.y.c, x, s.x.c, count, to, s.in_channels);
      });
    }
  }
  for_tiles([&](int64_t o, int64_t outputs, int64_t i, int64_t inputs) {
    for (int64_t k = 0; k < outputs; ++k) {
      const int64_t row = (o + k) * s.in_channels + i;
      for (int64_t c = 0; c < inputs; ++c) g.dw[row + c] = static_cast<float>(sums[row + c]);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sparkpilot
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot {

HWY_EXPORT(scratch_impl);
HWY_EXPORT(depthwise_impl);
HWY_EXPORT(tiles_impl);
HWY_EXPORT(pointwise_impl);

int64_t depthwise_gradient_scratch(const ConvShape& shape) { return HWY_DYNAMIC_DISPATCH(scratch_impl)(shape); }

void depthwise_weight_gradient(const WeightGradient& g, int64_t first, int64_t last, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(depthwise_impl)(g, first, last, scratch);
}

int64_t pointwise_gradient_tiles(const ConvShape& shape) { return HWY_DYNAMIC_DISPATCH(tiles_impl)(shape); }

void pointwise_weight_gradient(const WeightGradient& g, int64_t first, int64_t last, double* sums) {
  HWY_DYNAMIC_DISPATCH(pointwise_impl)(g, first, last, sums);
}

}  // namespace sparkpilot
#endif  // HWY_ONCE

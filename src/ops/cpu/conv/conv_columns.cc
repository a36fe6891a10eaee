#include "ops/cpu/conv/conv_columns.h"

#include <algorithm>

#include "base/parallel.h"
#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/gemm/tile_plan.h"

namespace sparkpilot {
namespace {

constexpr int64_t kPanel = PanelMatrix::kPanel;
constexpr int64_t kMostFloats = int64_t{1} << 24;  // of the columns of one row of the image

// Rows [first, last) of an image.
struct Rows {
  int64_t first, last;
};

struct ColumnsState : KernelState {
  ConvShape shape;
  bool one_each = false;  // a filter for each channel: no product
  bool plain = false;     // 1x1 at stride 1: the product is the output
  int64_t width = 0;      // of the columns of a pixel: taps, times outputs of a group
  int64_t packed = 0;     // floats of the packed weights of a group; one_each: of all
  int64_t step = 1;       // output rows of a band
  int64_t columns = 0;    // floats of the columns of a band
  int64_t slots = 1;      // bands at a time
  int64_t bands() const { return (shape.window.out[1] + step - 1) / step; }
};

// The image's rows that reach any of these output rows.
Rows reaching(const KernelWindow& w, const Rows& out) {
  const int64_t reach = (w.kernel[1] - 1) * w.dilation[1], low = out.first + w.pad_begin[1] - reach;
  const int64_t first = low <= 0 ? 0 : (low + w.stride[1] - 1) / w.stride[1];
  return {std::min(first, w.in[1]), std::clamp((out.last - 1 + w.pad_begin[1]) / w.stride[1] + 1, first, w.in[1])};
}

// The image's pixels [first, last) along a row that fall on the output under tap `kw`.
Rows falling(const KernelWindow& w, int64_t kw) {
  const int64_t at = kw * w.dilation[2] - w.pad_begin[2];  // of pixel 0
  const int64_t first = at >= 0 ? 0 : (-at + w.stride[2] - 1) / w.stride[2];
  const int64_t last = at >= w.out[2] ? 0 : (w.out[2] - 1 - at) / w.stride[2] + 1;
  return {std::min(first, w.in[2]), std::clamp(last, std::min(first, w.in[2]), w.in[2])};
}

// [I, O/groups, taps] as packed panels of [I of a group, taps x O/groups]; one_each: [taps, channels].
void pack(const ColumnsState& state, const float* from, float* to) {
  const ConvShape& s = state.shape;
  const int64_t taps = s.window.kernel_size(), out = s.out_per_group(), in = s.in_per_group();
  if (state.one_each) {
    for (int64_t k = 0; k < taps; ++k) {
      for (int64_t c = 0; c < s.in_channels; ++c) to[k * s.in_channels + c] = from[c * taps + k];
    }
    return;
  }
  const int64_t panels = state.packed / (in * kPanel);
  parallel_for(s.groups * panels, 1 + 16384 / (in * kPanel), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % panels * kPanel, count = std::min(kPanel, state.width - first);
      const float* row = from + i / panels * in * state.width;
      float* at = to + i * in * kPanel;
      for (int64_t p = 0; p < in; ++p, row += state.width, at += kPanel) {
        for (int64_t j = 0; j < count;) {  // the outputs of one tap after the other
          const int64_t tap = (first + j) / out, o = (first + j) % out, next = std::min(count, j + out - o);
          for (const float* each = row + o * taps + tap; j < next; ++j, each += taps) at[j] = *each;
        }
        std::fill(at + count, at + kPanel, 0.0f);
      }
    }
  });
}

// A row of the output: the bias, and under each row of the kernel what a row of the image adds. `add(image row, tap
// row, output row)` adds one.
template <typename Add>
void output_rows(const ColumnsState& state, const Call& call, int64_t n, const Rows& rows, const Add& add) {
  const ConvShape& s = state.shape;
  const KernelWindow& w = s.window;
  const float* bias = call.has(2) ? call.inputs[2].as<float>() : nullptr;
  for (int64_t h = rows.first; h < rows.last; ++h) {
    float* y = call.outputs[0].as<float>() + n * s.y.n + h * s.y.h;
    for (int64_t i = 0; i < w.out[2]; ++i) {
      if (bias) std::copy_n(bias, s.out_channels, y + i * s.out_channels);
      else std::fill_n(y + i * s.out_channels, s.out_channels, 0.0f);
    }
    for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
      const int64_t at = h + w.pad_begin[1] - kh * w.dilation[1];
      if (at >= 0 && at % w.stride[1] == 0 && at / w.stride[1] < w.in[1]) add(at / w.stride[1], kh, y);
    }
  }
}

void band_of_filters(const ColumnsState& state, const Call& call, const float* weights, int64_t n, const Rows& rows) {
  const ConvShape& s = state.shape;
  const KernelWindow& w = s.window;
  const int64_t channels = s.in_channels;
  const float* x = call.inputs[0].as<float>() + n * s.x.n;
  output_rows(state, call, n, rows, [&](int64_t row, int64_t kh, float* y) {
    for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
      const float* tap = weights + (kh * w.kernel[2] + kw) * channels;
      const Rows pixels = falling(w, kw);
      const float* from = x + row * s.x.h + pixels.first * channels;
      float* to = y + (pixels.first * w.stride[2] + kw * w.dilation[2] - w.pad_begin[2]) * channels;
      for (int64_t i = pixels.first; i < pixels.last; ++i, from += channels, to += w.stride[2] * channels) {
        for (int64_t c = 0; c < channels; ++c) to[c] += tap[c] * from[c];
      }
    }
  });
}

void band_of_columns(const ColumnsState& state, const Call& call, const float* weights, float* columns, int64_t n,
                     const Rows& rows) {
  const ConvShape& s = state.shape;
  const KernelWindow& w = s.window;
  const Rows image = reaching(w, rows);
  const int64_t pixels = (image.last - image.first) * w.in[2], out = s.out_per_group();
  for (int64_t g = 0; g < s.groups; ++g) {
    const float* x = call.inputs[0].as<float>() + n * s.x.n + image.first * s.x.h + g * s.in_per_group();
    const PanelView b(weights + g * state.packed, s.in_per_group(), state.width);
    multiply_rows(x, s.in_channels, b, {.y = columns + g * pixels * state.width, .stride = state.width},
                  {0, pixels, 0, b.panels()}, false);
  }
  output_rows(state, call, n, rows, [&](int64_t row, int64_t kh, float* y) {
    for (int64_t g = 0; g < s.groups; ++g) {
      const float* line = columns + (g * pixels + (row - image.first) * w.in[2]) * state.width;
      for (int64_t kw = 0; kw < w.kernel[2]; ++kw) {
        const Rows under = falling(w, kw);
        const float* from = line + under.first * state.width + (kh * w.kernel[2] + kw) * out;
        float* to = y + (under.first * w.stride[2] + kw * w.dilation[2] - w.pad_begin[2]) * s.out_channels + g * out;
        for (int64_t i = under.first; i < under.last; ++i, from += state.width, to += w.stride[2] * s.out_channels) {
          for (int64_t o = 0; o < out; ++o) to[o] += from[o];
        }
      }
    }
  });
}

}  // namespace

Acceptance conv_columns_accepts(const Problem& p) {
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    if (p.has(i) && p.inputs[i].dtype != DType::f32) return fmt::format("input {} is {}", i, name(p.inputs[i].dtype));
  }
  if (p.attrs().integer("channels_last", 0) == 0) return "channels come first";
  const ConvShape s = conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
  if (s.empty() || s.window.in_size() == 0) return "empty";
  if (s.window.dims == 3) return "three dimensions";
  if (s.window.in[2] * s.out_channels * s.window.kernel_size() > kMostFloats) return "a row's columns are too many";
  return true;
}

std::unique_ptr<KernelState> conv_columns_prepare(const Problem& p) {
  constexpr int64_t kBandFloats = 65536;  // columns that stay in the second-level cache
  auto state = std::make_unique<ColumnsState>();
  ConvShape& s = state->shape;
  s = conv_transpose_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
  const KernelWindow& w = s.window;
  state->one_each = s.is_depthwise();
  state->plain = w.kernel_size() == 1 && w.stride[1] == 1 && w.stride[2] == 1 && w.in == w.out && w.pad_begin[1] == 0 &&
                 w.pad_begin[2] == 0;
  state->width = w.kernel_size() * s.out_per_group();
  state->packed = state->one_each ? w.kernel_size() * s.in_channels : panel_floats(s.in_per_group(), state->width);
  const int64_t threads = std::max(1, thread_count());
  const int64_t row = w.in[2] * state->width * s.groups;  // floats of the columns of a row of the image
  const int64_t halo = (w.kernel[1] - 1) * w.dilation[1] / w.stride[1];
  // At least as many rows as a band shares with its neighbours; else as many bands as threads.
  const int64_t fit = std::max<int64_t>(kBandFloats / row, 2 * halo + 1);
  const int64_t share = (s.batch * w.out[1] + threads - 1) / threads;
  state->step =
      std::clamp<int64_t>(std::min(fit * w.stride[1], std::max(share, (halo + 1) * w.stride[1])), 1, w.out[1]);
  state->slots = std::min(threads, s.batch * state->bands());
  if (!state->one_each && !state->plain) {
    int64_t most = 0;
    for (int64_t first = 0; first < w.out[1]; first += state->step) {
      const Rows image = reaching(w, {first, std::min(first + state->step, w.out[1])});
      most = std::max(most, image.last - image.first);
    }
    state->columns = most * row;
  }
  const int64_t weights = state->packed * (state->one_each ? 1 : s.groups);
  const int64_t bias = state->plain && p.has(2) ? s.groups * bias_floats(s.out_per_group()) : 0;
  state->workspace = (weights + state->slots * state->columns + bias) * static_cast<int64_t>(sizeof(float));
  return state;
}

void conv_columns_run(const Call& call) {
  const auto& state = call.as<ColumnsState>();
  const ConvShape& s = state.shape;
  const KernelWindow& w = s.window;
  auto* const weights = reinterpret_cast<float*>(call.workspace);
  float* const after = weights + state.packed * (state.one_each ? 1 : s.groups);
  pack(state, call.inputs[1].as<float>(), weights);
  if (state.plain && !state.one_each) {
    const int64_t out = s.out_per_group(), padded = bias_floats(out);
    const TilePlan plan{
        .rows = s.batch * w.out_size(), .columns = out, .depth = s.in_per_group(), .row_stride = s.out_channels};
    for (int64_t g = 0; g < s.groups; ++g) {
      float* const bias = after + g * padded;
      if (call.has(2)) pack_bias(call.inputs[2].as<float>() + g * out, out, 1, bias);
      const PanelView b(weights + g * state.packed, s.in_per_group(), out);
      const TileOutput to{
          .bias = call.has(2) ? bias : nullptr, .y = call.outputs[0].as<float>() + g * out, .stride = s.out_channels};
      plan.run(to.y, SplitEpilogue(), {}, [&](const RowRange& range) {
        multiply_rows(call.inputs[0].as<float>() + g * s.in_per_group(), s.in_channels, b, to, range, plan.rows <= 2);
      });
    }
    return;
  }
  // A slot has every slots-th band, so that those at work lie side by side.
  const int64_t bands = state.bands(), all = s.batch * bands;
  parallel_for(state.slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      for (int64_t i = slot; i < all; i += state.slots) {
        const int64_t first = i % bands * state.step;
        const Rows rows{first, std::min(first + state.step, w.out[1])};
        if (state.one_each) band_of_filters(state, call, weights, i / bands, rows);
        else band_of_columns(state, call, weights, after + slot * state.columns, i / bands, rows);
      }
    }
  });
}

}  // namespace sparkpilot

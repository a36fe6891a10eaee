// Computes the chain row by row: makes a few rows of the expanded image, filters them while they are in the first-level
// cache, and multiplies the result by the last stage's weights before it leaves the second-level cache.
//
// The expanded image is kept as slabs, one per panel of channels: [ring of rows, columns, kPanel]. Threads share the
// work by bands of output rows; each band computes the rows at its border itself. If that would be too much work, or a
// map is small, they share the panels instead, and then the last stage's rows.
#include <algorithm>

#include "ops/cpu/conv/conv_chain.h"
#include "ops/cpu/conv/conv_planes.h"
#include "ops/cpu/conv/depthwise.h"
#include "ops/cpu/gemm/tile_plan.h"

namespace sparkpilot {
namespace {

constexpr int64_t kPanel = PanelMatrix::kPanel;

struct Stage {
  PanelMatrix weights;
  Tensor bias;
  SplitEpilogue epilogue;
};

// How a run is split. Sizes are in floats, rows are rows of the output.
struct Cut {
  bool by_panels = false;
  int64_t pieces = 1;               // pieces that run at the same time
  int64_t step = 1;                 // output rows computed at a time
  int64_t ring = 0;                 // expanded rows that a slab holds
  int64_t slab = 0;                 // distance between the slabs of two panels; 0: they use the same memory
  int64_t slabs = 0, filtered = 0;  // for each piece: all slabs, and the depthwise result (by_panels: one for all)
  int64_t floats() const { return pieces * slabs + (by_panels ? 1 : pieces) * filtered; }
};

int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

struct ChainState : KernelState {
  ConvChain chain;
  std::array<Stage, ConvChain::kMax> stage;
  ConvShape slab_shape;  // the shape of the depthwise stage when it reads a slab, for one image
  Tensor zeros;
  bool planes = false;  // the first stage reads images with channels first
  int64_t most_pieces = 1;

  const Stage& depthwise() const { return stage[chain.stages - 2]; }
  const Stage& last() const { return stage[chain.stages - 1]; }
  Cut cut(int64_t pieces) const;
};

Cut ChainState::cut(int64_t pieces) const {
  constexpr int64_t kSlabFloats = 16384;           // first-level cache: more does not fit, less costs calls
  constexpr int64_t kFilteredFloats = 160 * 1024;  // second-level cache
  // Share of the work that may be done twice; beyond it, moving panels between cores costs less.
  constexpr double kHalo = 0.08;
  const ConvShape& d = chain.depthwise();
  const KernelWindow& w = d.window;
  const int64_t out_row = w.out[2] * d.out_channels, panels = (d.out_channels + kPanel - 1) / kPanel;
  const int64_t rows = w.out[1];
  Cut c{.pieces = pieces};
  const int64_t filtered_rows = std::clamp<int64_t>(kFilteredFloats / out_row, 1, rows);
  if (!chain.has_first()) {
    c.step = std::clamp<int64_t>(kSlabFloats / out_row, 1, rows);
    c.filtered = whole_lines(c.step * out_row);
    return c;
  }
  const int64_t kernel = w.kernel[1], stride = w.stride[1], slab_row = w.in[2] * kPanel;
  const double twice = static_cast<double>((pieces - 1) * std::max<int64_t>(0, kernel - stride)) /
                       static_cast<double>(w.in[1]) * chain.first().flops() / chain.flops();
  c.by_panels = pieces > 1 && d.batch == 1 && twice > kHalo;
  if (c.by_panels) c.pieces = std::min(pieces, 2 * panels);
  c.step = std::clamp<int64_t>((kSlabFloats / slab_row - kernel) / stride + 1, 1, rows);
  if (!c.by_panels) c.step = std::min(c.step, filtered_rows);
  c.ring = std::min(w.in[1], (c.step - 1) * stride + kernel);
  const int64_t slab = c.ring * slab_row;
  const bool keeps = !c.by_panels && c.step < rows;
  c.slab = keeps ? slab : 0;
  c.slabs = keeps ? panels * slab : slab;
  c.filtered = whole_lines((c.by_panels ? rows : c.step) * out_row);
  return c;
}

bool reads_planes(const ConvShape& s) { return s.x.c != 1 && s.in_channels > 1; }

Stage make_stage(const Problem& p, const ConvShape& s, size_t index) {
  Stage out;
  const Tensor& weights = p.constants[ConvChain::weights_input(index)];
  const int64_t taps = s.window.kernel_size(), in = s.in_per_group();
  const Tensor wide = in_dtype(weights, DType::f32);
  if (reads_planes(s)) {
    out.weights = pack_planes(wide.view(), s);
  } else if (s.is_depthwise()) {
    out.weights = pack_panels(wide.view(), taps, s.out_channels,
                              {.column = taps, .inner = taps, .inner_step = 1, .outer_step = 0});
  } else {
    const bool as_they_are = packed_dtype(weights.dtype(), s.is_pointwise(), false) == weights.dtype();
    out.weights = pack_panels((as_they_are ? weights : wide).view(), in * taps, s.out_channels,
                              {.column = in * taps, .inner = in, .inner_step = taps, .outer_step = 1});
  }
  if (p.has(ConvChain::bias_input(index))) {
    out.bias = pack_bias(p.constants[ConvChain::bias_input(index)].view(), s.out_channels);
  }
  out.epilogue =
      SplitEpilogue(Epilogue::parse(p.attrs().texts(stage_epilogue(index)), p.inputs, s.output(), s.out_channels));
  return out;
}

// One run.
class Run {
 public:
  Run(const ChainState& state, const Call& call, const Cut& cut)
      : state_(state),
        call_(call),
        cut_(cut),
        window_(state.chain.depthwise().window),
        floats_(reinterpret_cast<float*>(call.workspace)),
        channels_(state.chain.depthwise().out_channels) {
    for (size_t i = 0; i < state.chain.stages; ++i) operands_[i] = state.stage[i].epilogue.rest.bind(call);
  }
  void by_bands() const;
  void by_panels() const;

 private:
  void band(int64_t n, int64_t first_row, int64_t last_row, float* slabs, float* filtered) const;
  // Computes output rows [row, end) of the depthwise stage, for some panels, into `filtered`. `made` is the first row
  // of the expanded image that has not been computed yet.
  void filter(int64_t n, int64_t row, int64_t end, int64_t made, int64_t panel, float* slab, float* filtered) const;
  void expand(int64_t n, int64_t row, int64_t end, int64_t panel, float* slab) const;
  void depthwise(const float* x, int64_t ring, const ConvShape& shape, const RowRange& range, float* filtered) const;
  void project(int64_t n, int64_t row, int64_t end, const float* filtered) const;
  void finish(size_t stage, float* data, const Epilogue::Tile& tile) const;

  const float* image(int64_t n) const { return call_.inputs[0].as<float>() + n * state_.chain.first().x.n; }
  int64_t first_input(int64_t row) const {
    return std::clamp<int64_t>(row * window_.stride[1] - window_.pad_begin[1], 0, window_.in[1]);
  }
  int64_t last_input(int64_t end) const {
    const int64_t start = (end - 1) * window_.stride[1] - window_.pad_begin[1];
    return std::clamp<int64_t>(start + window_.kernel[1], 0, window_.in[1]);
  }

  const ChainState& state_;
  const Call& call_;
  const Cut& cut_;
  const KernelWindow& window_;
  float* floats_;
  int64_t channels_;
  std::array<Epilogue::Operands, ConvChain::kMax> operands_;
};

void Run::finish(size_t stage, float* data, const Epilogue::Tile& tile) const {
  const Epilogue& rest = state_.stage[stage].epilogue.rest;
  if (rest.empty()) return;
  Epilogue::Tile t = tile;
  t.data = data;
  rest.apply_rows(operands_[stage], t);
}

// Computes rows [row, end) of the expanded image for one panel into its slab, which is a ring.
void Run::expand(int64_t n, int64_t row, int64_t end, int64_t panel, float* slab) const {
  const ConvShape& s = state_.chain.first();
  const Stage& stage = state_.stage[0];
  const int64_t columns = window_.in[2], slab_row = columns * kPanel;
  while (row < end) {
    const int64_t at = row % cut_.ring, count = std::min(end - row, cut_.ring - at);
    float* to = slab + at * slab_row;
    // The address that row 0 and channel 0 would have.
    const TileOutput out = stage.epilogue.output(stage.bias, to - row * slab_row - panel * kPanel, kPanel);
    const RowRange range{row * columns, (row + count) * columns, panel, panel + 1};
    if (state_.planes) convolve_planes(image(n), s, stage.weights, out, range);
    else if (s.is_pointwise()) multiply_rows(image(n), s.in_channels, stage.weights, out, range, false);
    else convolve_rows(image(n), s, state_.zeros.data<float>().data(), stage.weights, out, range);
    finish(0, to,
           {.lines = count * columns,
            .length = std::min(kPanel, channels_ - panel * kPanel),
            .stride = kPanel,
            .channel = panel * kPanel});
    row += count;
  }
}

void Run::depthwise(const float* x, int64_t ring, const ConvShape& shape, const RowRange& range,
                    float* filtered) const {
  const Stage& stage = state_.depthwise();
  const int64_t out_row = shape.y.h, channel = range.first_panel * kPanel;
  const TileOutput out = stage.epilogue.output(stage.bias, filtered - range.first_row * out_row, 0);
  depthwise_rows(x, ring, shape, stage.weights, out, range);
  finish(state_.chain.stages - 2, filtered + channel,
         {.lines = (range.last_row - range.first_row) * window_.out[2],
          .length = std::min(channels_, range.last_panel * kPanel) - channel,
          .stride = channels_,
          .channel = channel});
}

void Run::filter(int64_t n, int64_t row, int64_t end, int64_t made, int64_t panel, float* slab, float* filtered) const {
  expand(n, std::max(made, first_input(row)), last_input(end), panel, slab);
  depthwise(slab - panel * kPanel, cut_.ring, state_.slab_shape, {row, end, panel, panel + 1}, filtered);
}

void Run::project(int64_t n, int64_t row, int64_t end, const float* filtered) const {
  const Stage& stage = state_.last();
  const int64_t columns = window_.out[2], pixels = (end - row) * columns, width = state_.chain.last().out_channels;
  const int64_t offset = (n * window_.out[1] + row) * columns * width;
  float* y = call_.outputs[0].as<float>() + offset;
  multiply_rows(filtered, channels_, stage.weights, stage.epilogue.output(stage.bias, y, width),
                {0, pixels, 0, stage.weights.panels()}, false);
  finish(state_.chain.stages - 1, y,
         {.lines = pixels, .length = width, .stride = width, .channel = 0, .offset = offset, .output_stride = width});
}

void Run::band(int64_t n, int64_t first_row, int64_t last_row, float* slabs, float* filtered) const {
  const int64_t panels = state_.depthwise().weights.panels();
  int64_t made = first_input(first_row);
  for (int64_t row = first_row; row < last_row; row += cut_.step) {
    const int64_t end = std::min(last_row, row + cut_.step);
    if (state_.chain.has_first()) {
      for (int64_t p = 0; p < panels; ++p) filter(n, row, end, made, p, slabs + p * cut_.slab, filtered);
      made = std::max(made, last_input(end));
    } else {
      depthwise(image(n), window_.in[1], state_.slab_shape, {row, end, 0, panels}, filtered);
    }
    project(n, row, end, filtered);
  }
}

void Run::by_bands() const {
  const int64_t rows = window_.out[1], all = state_.chain.depthwise().batch * rows;
  parallel_for(cut_.pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      float* slabs = floats_ + i * (cut_.slabs + cut_.filtered);
      const int64_t end = all * (i + 1) / cut_.pieces;
      for (int64_t at = all * i / cut_.pieces; at < end;) {
        const int64_t n = at / rows, count = std::min(end - at, rows - at % rows);
        band(n, at % rows, at % rows + count, slabs, slabs + cut_.slabs);
        at += count;
      }
    }
  });
}

void Run::by_panels() const {
  const int64_t rows = window_.out[1], all = state_.depthwise().weights.panels() * rows;
  float* filtered = floats_ + cut_.pieces * cut_.slabs;
  const int64_t out_row = window_.out[2] * channels_;
  parallel_for(cut_.pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t end = all * (i + 1) / cut_.pieces;
      int64_t made = 0;
      for (int64_t at = all * i / cut_.pieces, start = at; at < end;) {
        const int64_t panel = at / rows, row = at % rows, count = std::min({end - at, rows - row, cut_.step});
        if (row == 0 || at == start) made = first_input(row);
        filter(0, row, row + count, made, panel, floats_ + i * cut_.slabs, filtered + row * out_row);
        made = std::max(made, last_input(row + count));
        at += count;
      }
    }
  });
  const int64_t pixels = rows * window_.out[2];
  const ConvShape& s = state_.chain.last();
  const Stage& stage = state_.last();
  const TilePlan plan{.rows = pixels, .columns = s.out_channels, .depth = channels_, .row_stride = s.out_channels};
  const TileOutput out = stage.epilogue.output(stage.bias, call_.outputs[0].as<float>(), s.out_channels);
  plan.run(out.y, stage.epilogue, operands_[state_.chain.stages - 1],
           [&](const RowRange& range) { multiply_rows(filtered, channels_, stage.weights, out, range, false); });
}

}  // namespace

Acceptance conv_chain_simd_accepts(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return "an image of 16 bits";
  const ConvChain chain = ConvChain::of(p);
  for (size_t i = 0; i < chain.stages; ++i) {
    if (chain.shape[i].empty()) return "empty";
    if (!p.is_constant(ConvChain::weights_input(i))) return "weights are not constant";
    const size_t bias = ConvChain::bias_input(i);
    if (p.has(bias) && !p.is_constant(bias)) return "bias is not constant";
  }
  if (reads_planes(chain.first()) && !(chain.has_first() && convolve_planes_takes(chain.first()))) {
    return "channels come first";
  }
  return true;
}

std::unique_ptr<KernelState> conv_chain_simd_prepare(const Problem& p) {
  auto state = std::make_unique<ChainState>();
  const ConvChain& chain = state->chain = ConvChain::of(p);
  for (size_t i = 0; i < chain.stages; ++i) {
    state->stage[i] = make_stage(p, chain.shape[i], i);
    state->consumed |= uint64_t{1} << ConvChain::weights_input(i);
    if (p.has(ConvChain::bias_input(i))) state->consumed |= uint64_t{1} << ConvChain::bias_input(i);
  }
  state->zeros = Tensor::zeros(DType::f32, Shape{std::max(chain.first().in_per_group(), kConvolveZeros)});
  state->planes = reads_planes(chain.first());
  state->slab_shape = chain.depthwise();
  if (chain.has_first()) {
    state->slab_shape.x.w = kPanel;
    state->slab_shape.x.h = kPanel * chain.depthwise().window.in[2];
  }
  constexpr double kWorth = 32768;  // FLOPs that justify a thread
  const auto worth = static_cast<int64_t>(chain.flops() / kWorth);
  state->most_pieces = std::clamp<int64_t>(worth, 1, std::max(1, thread_count()));
  int64_t floats = 0;
  for (int64_t pieces = 1; pieces <= state->most_pieces; ++pieces) {
    floats = std::max(floats, state->cut(pieces).floats());
  }
  state->workspace = floats * static_cast<int64_t>(sizeof(float));
  return state;
}

void conv_chain_simd_run(const Call& call) {
  const auto& state = call.as<ChainState>();
  const Cut cut = state.cut(std::min<int64_t>(state.most_pieces, thread_count()));
  const Run run(state, call, cut);
  cut.by_panels ? run.by_panels() : run.by_bands();
}

}  // namespace sparkpilot

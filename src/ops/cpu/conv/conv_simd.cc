#include "ops/cpu/conv/conv_simd.h"

#include "ops/cpu/conv/conv_planes.h"
#include "ops/cpu/conv/depthwise.h"
#include "ops/cpu/conv/depthwise_bf16.h"
#include "ops/cpu/gemm/dot_tile.h"
#include "ops/cpu/gemm/tile_plan.h"

namespace sparkpilot {
namespace {

enum class Way { rows, image, depthwise, planes };

struct SimdState : KernelState {
  ConvShape shape;
  Way way = Way::image;
  std::vector<PanelMatrix> weights;  // one per group; a single one for depthwise
  std::vector<Tensor> bias;
  Tensor zeros;
  TilePlan plan;  // of one group
  SplitEpilogue epilogue;
  DotStore store;       // for bf16: the remaining steps of the epilogue
  int64_t threads = 1;  // the number of threads that have workspace
};

// 1x1 at stride 1 multiplies the image's rows in place.
Way way_of(const ConvShape& s) {
  if (s.x.c != 1 && s.in_channels > 1) return Way::planes;
  const bool one_each = s.groups > 1 && s.groups == s.in_channels;
  if (one_each && s.out_channels <= 2 * s.in_channels) return Way::depthwise;
  return s.is_pointwise() ? Way::rows : Way::image;
}

bool is_small_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// A part of a one-dimensional constant.
ConstView part(const Tensor& t, int64_t first, int64_t count) {
  const int64_t at = first * bits(t.dtype()) / 8;
  return {t.dtype(), Shape{count}, static_cast<const std::byte*>(t.raw()) + at};
}

TilePlan plan_of(const ConvShape& s) {
  return {.rows = s.batch * s.window.out_size(),
          .columns = s.out_per_group(),
          .depth = s.in_per_group() * s.window.kernel_size(),
          .row_stride = s.out_channels};
}

// Where a group's weights [O, I, kernel] have what the kernels read as depth and columns.
PanelSource source_of(const ConvShape& s, Way way) {
  const int64_t taps = s.window.kernel_size(), in = s.in_per_group(), depth = in * taps;
  if (way == Way::depthwise || way == Way::planes)
    return {.column = depth, .inner = depth, .inner_step = 1, .outer_step = 0};
  // The depth is ordered by kernel position, then channel.
  return {.column = depth, .inner = in, .inner_step = taps, .outer_step = 1};
}

Tensor zeros_of(const ConvShape& s) {
  return Tensor::zeros(DType::f32, Shape{std::max(s.in_per_group(), kConvolveZeros)});
}

}  // namespace

Acceptance conv_simd_accepts(const Problem& p) {
  const DType x = p.inputs[0].dtype;
  if (x != DType::f32 && !(x == DType::bf16 && dot_group() > 0)) return fmt::format("{} activations", name(x));
  if (p.attrs().integer("channels_last", 0) == 0) return "channels come first";
  if (!is_small_float(p.inputs[1].dtype)) return fmt::format("{} weights", name(p.inputs[1].dtype));
  if (!p.is_constant(1)) return "weights are not constant";
  if (p.has(2) && !p.is_constant(2)) return "bias is not constant";
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  if (s.empty()) return "empty";
  if (way_of(s) == Way::planes && !convolve_planes_takes(s)) return "channels come first";
  if (x == DType::bf16 && (way_of(s) != Way::depthwise || s.window.dims > 2)) return "bf16, and not depthwise";
  return true;
}

bool conv_simd_wins(const Problem& p) {
  if (!conv_simd_accepts(p)) return false;
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  const KernelWindow& w = s.window;
  if (way_of(s) == Way::depthwise) {
    // oneDNN is fast on bf16 if the kernel is small or strided, and uses its plain loop with two filters per channel.
    const bool plain = p.inputs[0].dtype == DType::bf16 && s.out_channels == s.in_channels;
    if (plain && (w.kernel[2] < 5 || w.stride[2] > 1)) return false;
    return w.dilation[2] == 1 && w.stride[2] <= 2 && (w.kernel[2] == 3 || w.kernel[2] == 5 || w.kernel[2] == 7);
  }
  if (way_of(s) == Way::planes) return true;
  // 1x1, strided or not: 1.02 to 2.5 times as fast at 44 shapes.
  if (s.groups == 1 && w.kernel_size() == 1) return true;
  // Small maps: oneDNN splits along pixels, of which there are too few.
  return s.groups == 1 && s.batch * w.out_size() <= 64 && s.out_channels >= 32 && s.in_channels >= 32;
}

std::unique_ptr<KernelState> conv_simd_prepare(const Problem& p) {
  auto state = std::make_unique<SimdState>();
  ConvShape& s = state->shape;
  s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  state->way = way_of(s);
  state->epilogue = SplitEpilogue(Epilogue::of(p, s.out_channels));
  state->consumed = p.has(2) ? 6 : 2;
  state->plan = plan_of(s);
  const PanelSource where = source_of(s, state->way);
  const Tensor& weights = p.constants[1];
  if (state->way == Way::depthwise || state->way == Way::planes) {
    const int64_t depth = state->way == Way::depthwise ? s.window.kernel_size() : state->plan.depth;
    state->weights.push_back(pack_panels(in_dtype(weights, DType::f32).view(), depth, s.out_channels, where));
    if (p.has(2)) state->bias.push_back(pack_bias(p.constants[2].view(), s.out_channels));
    if (p.inputs[0].dtype == DType::bf16) {
      state->store = DotStore(state->epilogue.rest);
      state->threads = std::max(1, thread_count());
      state->workspace = state->threads * DepthwiseBf16::workspace(s);
    }
    return state;
  }
  const bool plain = state->way == Way::rows;
  const Tensor packed = in_dtype(weights, packed_dtype(weights.dtype(), plain, state->plan.rows <= 2));
  const int64_t out = s.out_per_group(), depth = state->plan.depth;
  for (int64_t g = 0; g < s.groups; ++g) {
    state->weights.push_back(pack_panels(part(packed, g * out * depth, out * depth), depth, out, where));
    if (p.has(2)) state->bias.push_back(pack_bias(part(p.constants[2], g * out, out), out));
  }
  state->zeros = zeros_of(s);
  return state;
}

namespace {

// A run of f32: what the constant and the packed weights share. `weights(g)` is a PanelView, `bias(g)` a pointer, for
// each group; depthwise has the whole of both in group 0.
struct Work {
  const ConvShape& shape;
  Way way;
  const TilePlan& plan;  // of one group
  const SplitEpilogue& epilogue;
  const float* zeros;

  template <typename Bias>
  void depthwise(const float* x, float* y, const Epilogue::Operands& operands, const PanelView& weights,
                 const Bias& bias) const;
  template <typename Weights, typename Bias>
  void run(const Call& call, const Weights& weights, const Bias& bias) const;
};

template <typename Bias>
void Work::depthwise(const float* x, float* y, const Epilogue::Operands& operands, const PanelView& weights,
                     const Bias& bias) const {
  const ConvShape& s = shape;
  const KernelWindow& w = s.window;
  const TileOutput out = epilogue.output(bias(0), y, 0);
  // Rows per piece: several, to share the kernel's rows, but few enough to stay in cache for the epilogue.
  const int64_t row = w.out[2] * s.out_channels, rows = s.batch * w.out[0] * w.out[1];
  const int64_t piece = std::clamp<int64_t>(65536 / row, 1, 16), pieces = (rows + piece - 1) / piece;
  const double work = static_cast<double>(row * piece) * static_cast<double>(w.kernel_size());
  parallel_for(pieces, 1 + static_cast<int64_t>(16384 / (work + 1)), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t from = i * piece, to = std::min(rows, from + piece);
      depthwise_rows(x, w.in[1], s, weights, out, {from, to, 0, weights.panels()});
      if (epilogue.rest.empty()) continue;
      epilogue.rest.apply_rows(operands, {.data = y + from * row,
                                          .lines = (to - from) * w.out[2],
                                          .length = s.out_channels,
                                          .stride = s.out_channels,
                                          .channel = 0,
                                          .offset = from * row,
                                          .output_stride = s.out_channels});
    }
  });
}

template <typename Weights, typename Bias>
void Work::run(const Call& call, const Weights& weights, const Bias& bias) const {
  const ConvShape& s = shape;
  const float* x = call.inputs[0].as<float>();
  float* y = call.outputs[0].as<float>();
  const Epilogue::Operands operands = epilogue.rest.bind(call);
  if (way == Way::depthwise) return depthwise(x, y, operands, weights(0), bias);
  for (int64_t g = 0; g < s.groups; ++g) {
    TilePlan group = plan;
    group.channel = g * s.out_per_group();
    const PanelView b = weights(g);
    const TileOutput out = epilogue.output(bias(g), y + group.channel, s.out_channels);
    group.run(out.y, epilogue, operands, [&](const RowRange& range) {
      if (way == Way::planes) convolve_planes(x, s, b, out, range);
      else if (way == Way::rows) multiply_rows(x, s.in_channels, b, out, range, group.rows <= 2);
      else convolve_rows(x + g * s.in_per_group(), s, zeros, b, out, range);
    });
  }
}

}  // namespace

void conv_simd_run(const Call& call) {
  const auto& state = call.as<SimdState>();
  const ConvShape& s = state.shape;
  if (call.inputs[0].dtype == DType::bf16) {
    const DepthwiseBf16 work{.shape = s,
                             .weights = state.weights[0],
                             .output = state.epilogue.output(state.bias.empty() ? Tensor() : state.bias[0], nullptr, 0),
                             .store = state.store,
                             .threads = state.threads};
    work.run(call.inputs[0].as<BFloat16>(), call.outputs[0].as<BFloat16>(), state.epilogue.rest.bind(call),
             call.workspace);
    return;
  }
  const float* zeros = state.zeros.present() ? state.zeros.data<float>().data() : nullptr;
  Work{s, state.way, state.plan, state.epilogue, zeros}.run(
      call, [&](int64_t g) { return PanelView(state.weights[static_cast<size_t>(g)]); },
      [&](int64_t g) -> const float* {
        return state.bias.empty() ? nullptr : state.bias[static_cast<size_t>(g)].data<float>().data();
      });
}

// ---------------------------------------------------------------- weights that are known in a run only
namespace {

struct PackedState : KernelState {
  ConvShape shape;
  Way way = Way::image;
  TilePlan plan;
  SplitEpilogue epilogue;
  Tensor zeros;
  int64_t groups = 1;             // of the packed weights: 1 for depthwise
  int64_t weights = 0, bias = 0;  // floats of each group in the workspace
};

}  // namespace

Acceptance conv_packed_accepts(const Problem& p) {
  for (size_t i = 0; i < p.inputs.size() && i < 3; ++i) {
    if (p.has(i) && p.inputs[i].dtype != DType::f32) return fmt::format("input {} is {}", i, name(p.inputs[i].dtype));
  }
  if (p.attrs().integer("channels_last", 0) == 0) return "channels come first";
  if (p.is_constant(1) && (!p.has(2) || p.is_constant(2))) return "constant weights";
  const ConvShape s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  if (s.empty()) return "empty";
  if (way_of(s) == Way::planes && !convolve_planes_takes(s)) return "channels come first";
  return true;
}

std::unique_ptr<KernelState> conv_packed_prepare(const Problem& p) {
  auto state = std::make_unique<PackedState>();
  ConvShape& s = state->shape;
  s = conv_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape, true);
  state->way = way_of(s);
  state->epilogue = SplitEpilogue(Epilogue::of(p, s.out_channels));
  state->plan = plan_of(s);
  state->zeros = zeros_of(s);
  const bool whole = state->way == Way::depthwise;
  const int64_t columns = whole ? s.out_channels : s.out_per_group();
  state->groups = whole ? 1 : s.groups;
  state->weights = panel_floats(whole ? s.window.kernel_size() : state->plan.depth, columns);
  if (p.has(2)) state->bias = bias_floats(columns);
  state->workspace = state->groups * (state->weights + state->bias) * static_cast<int64_t>(sizeof(float));
  return state;
}

void conv_packed_run(const Call& call) {
  const auto& state = call.as<PackedState>();
  const ConvShape& s = state.shape;
  const int64_t columns = s.out_channels / state.groups, per_panel = PanelMatrix::kPanel;
  const int64_t depth = state.way == Way::depthwise ? s.window.kernel_size() : state.plan.depth;
  const PanelSource where = source_of(s, state.way);
  const auto* from = call.inputs[1].as<float>();
  auto* const packed = reinterpret_cast<float*>(call.workspace);
  float* const biases = packed + state.groups * state.weights;
  const int64_t panels = state.weights / (depth * per_panel);
  parallel_for(state.groups * panels, 1 + 16384 / (depth * per_panel), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i / panels, panel = i % panels;
      pack_panels(from + g * columns * where.column, depth, columns, where, panel, panel + 1,
                  packed + g * state.weights);
    }
  });
  for (int64_t g = 0; g < state.groups && state.bias > 0; ++g) {
    pack_bias(call.inputs[2].as<float>() + g * columns, columns, 1, biases + g * state.bias);
  }
  Work{s, state.way, state.plan, state.epilogue, state.zeros.data<float>().data()}.run(
      call, [&](int64_t g) { return PanelView(packed + g * state.weights, depth, columns); },
      [&](int64_t g) -> const float* { return state.bias > 0 ? biases + g * state.bias : nullptr; });
}

}  // namespace sparkpilot

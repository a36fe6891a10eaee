// The gradient of a convolution's weights.
//
// dw[o, i, k] = sum over n, p of x[n, i, p * stride - pad + k * dilation] * dy[n, o, p], in groups of channels.
#include <algorithm>
#include <type_traits>

#include "ops/conv/window_gradient.h"
#include "ops/cpu/conv/conv_loop.h"
#include "ops/cpu/conv/weight_gradient_simd.h"
#include "ops/cpu/onednn/conv_onednn.h"
#include "ops/cuda/weight_gradient_candidates.h"
#include "ops/registry.h"

namespace sparkpilot::conv_weight_gradient_ops {
namespace {

// Images of 16 bits give f32, as the sum over all pixels does.
DType result_type(DType images) { return images == DType::f16 || images == DType::bf16 ? DType::f32 : images; }

void infer(InferContext& c) {
  if (!is_float(c.dtype(0)) || c.dtype(1) != c.dtype(0)) fail("{} and {}", name(c.dtype(0)), name(c.dtype(1)));
  const ConvShape s = conv_weight_gradient_shape(c.attrs, c.shape(0), c.shape(1));
  std::vector<int64_t> weights{s.out_channels, s.in_per_group()};
  for (const int64_t size : s.window.spatial(s.window.kernel)) weights.push_back(size);
  c.output(0, result_type(c.dtype(0)), Shape(weights));
}

void run(const Call& c) {
  const ConvShape s = conv_weight_gradient_shape(c.attrs(), c.inputs[0].shape, c.inputs[1].shape);
  const KernelWindow& w = s.window;
  const int64_t taps = w.kernel_size(), in_group = s.in_per_group();
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    const T* dy = c.inputs[1].as<T>();
    using Result = std::conditional_t<sizeof(T) == 2, float, T>;
    auto* dw = c.outputs[0].as<Result>();
    parallel_for(s.out_channels * in_group, 1, [&](int64_t first, int64_t last) {
      for (int64_t filter = first; filter < last; ++filter) {
        const int64_t o = filter / in_group, i = o / s.out_per_group() * in_group + filter % in_group;
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t kw = tap % w.kernel[2], kh = tap / w.kernel[2] % w.kernel[1],
                        kd = tap / w.kernel[2] / w.kernel[1];
          double sum = 0;
          for (int64_t n = 0; n < s.batch; ++n) {
            for (int64_t od = 0; od < w.out[0]; ++od) {
              const int64_t d = od * w.stride[0] - w.pad_begin[0] + kd * w.dilation[0];
              if (d < 0 || d >= w.in[0]) continue;
              for (int64_t oh = 0; oh < w.out[1]; ++oh) {
                const int64_t h = oh * w.stride[1] - w.pad_begin[1] + kh * w.dilation[1];
                if (h < 0 || h >= w.in[1]) continue;
                const T* row = x + n * s.x.n + i * s.x.c + d * s.x.d + h * s.x.h;
                const T* from = dy + n * s.y.n + o * s.y.c + od * s.y.d + oh * s.y.h;
                for (int64_t ow = 0; ow < w.out[2]; ++ow) {
                  const int64_t at = ow * w.stride[2] - w.pad_begin[2] + kw * w.dilation[2];
                  if (at < 0 || at >= w.in[2]) continue;
                  sum += static_cast<double>(row[at * s.x.w]) * static_cast<double>(from[ow * s.y.w]);
                }
              }
            }
          }
          dw[filter * taps + tap] = static_cast<Result>(sum);
        }
      }
    });
  });
}

// It is linear in the image and in the output's gradient: g takes the place of a convolution's
// weights.
std::vector<ValueId> gradient(GradContext& c) {
  if (c.node.attrs.integer("channels_last", 0) != 0) fail("its images have channels last");
  const ValueId x = c.in(0), dy = c.in(1), g = c.out_grads[0];
  const ConvShape s = conv_weight_gradient_shape(c.node.attrs, c.b.shape(x), c.b.shape(dy));
  std::vector<ValueId> out(2);
  if (c.wants(0)) out[0] = c.b.add("ConvTranspose", {dy, g}, transposed_attributes(s.window, s.groups));
  if (c.wants(1)) out[1] = c.b.add("Conv", {reached(Term(c.b, x), s.window), g}, window_attributes(s.window, s.groups));
  return out;
}

// ---------------------------------------------------------------- our own kernels
ConvShape shape_of(const Problem& p) {
  return conv_weight_gradient_shape(p.attrs(), p.inputs[0].shape, p.inputs[1].shape);
}

struct SimdState final : KernelState {
  ConvShape shape;
  int64_t tasks = 1, scratch = 0;  // of the depthwise kernel: parts of the work, and the bytes of each
};

Acceptance accepts_depthwise(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} images", name(p.inputs[0].dtype));
  const ConvShape s = shape_of(p);
  if (s.empty()) return "empty";
  if (s.groups == 1 || s.in_per_group() != 1) return "not depthwise";
  if (s.window.dims == 3) return "three dimensions";
  if (s.channels_last && !s.is_depthwise()) return "several filters a channel";
  return true;
}

// With channels first a task is some filters, and there may be any number of them; with channels last it is some rows
// of the output, whose sums are joined: their number must not depend on the threads.
std::unique_ptr<KernelState> prepare_depthwise(const Problem& p) {
  constexpr int64_t kPixels = 128, kMostParts = 32;
  auto state = std::make_unique<SimdState>();
  const ConvShape& s = state->shape = shape_of(p);
  const int64_t rows = s.batch * s.window.out[1];
  if (s.channels_last) {
    state->tasks = std::min(rows, std::clamp<int64_t>(rows * s.window.out[2] / kPixels, 1, kMostParts));
    state->scratch = depthwise_pixels_floats(s) * static_cast<int64_t>(sizeof(float));
  } else {
    state->tasks = std::min<int64_t>(thread_count(), s.out_channels);
    state->scratch = (depthwise_gradient_scratch(s) + 63) / 64 * 64;
  }
  state->workspace = state->tasks * state->scratch;
  return state;
}

WeightGradient operands(const Call& c) {
  return {c.as<SimdState>().shape, c.inputs[0].as<float>(), c.inputs[1].as<float>(), c.outputs[0].as<float>()};
}

void run_depthwise(const Call& c) {
  const auto& state = c.as<SimdState>();
  const ConvShape& s = state.shape;
  const int64_t count = s.channels_last ? s.batch * s.window.out[1] : s.out_channels;
  parallel_for(state.tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = count * task / state.tasks, last = count * (task + 1) / state.tasks;
      std::byte* const scratch = c.workspace + task * state.scratch;
      if (s.channels_last) depthwise_pixels_rows(operands(c), first, last, reinterpret_cast<float*>(scratch));
      else depthwise_weight_gradient(operands(c), first, last, scratch);
    }
  });
  if (s.channels_last) depthwise_pixels_join(operands(c), reinterpret_cast<const float*>(c.workspace), state.tasks);
}

// Measured (bench/kernel_bench.cc): small kernels of small images, and 1x1 of small images, whose channels are many.
// Other dense kernels are for processors on which oneDNN has none.
std::string_view depthwise_yields(const Problem& p) {
  const KernelWindow w = shape_of(p).window;
  return w.kernel_size() <= 9 && w.out_size() < 4096 ? "onednn" : "";
}
std::string_view dense_yields(const Problem& p) {
  const ConvShape s = shape_of(p);
  return !s.is_pointwise() || s.window.out_size() < 1024 ? "onednn" : "";
}

Acceptance accepts_dense(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} images", name(p.inputs[0].dtype));
  const ConvShape s = shape_of(p);
  if (s.empty()) return "empty";
  if (s.channels_last) return s.window.dims < 3 ? Acceptance(true) : "three dimensions";
  return s.is_pointwise() ? Acceptance(true) : "not 1x1 at stride 1";
}

std::unique_ptr<KernelState> prepare_dense(const Problem& p) {
  auto state = std::make_unique<SimdState>();
  const ConvShape& s = state->shape = shape_of(p);
  state->workspace = s.channels_last
                         ? dense_pixels_floats({s, nullptr, nullptr, nullptr}) * static_cast<int64_t>(sizeof(float))
                         : s.weights() * static_cast<int64_t>(sizeof(double));
  return state;
}

void run_dense(const Call& c) {
  const WeightGradient g = operands(c);
  if (g.shape.channels_last) {
    parallel_for(dense_pixels_tiles(g), 1, [&](int64_t begin, int64_t end) {
      dense_pixels(g, begin, end, reinterpret_cast<float*>(c.workspace));
    });
    return;
  }
  parallel_for(pointwise_gradient_tiles(g.shape), 1, [&](int64_t begin, int64_t end) {
    pointwise_weight_gradient(g, begin, end, reinterpret_cast<double*>(c.workspace));
  });
}

double cost(const Problem& p) { return shape_of(p).flops(); }

using Ints = std::vector<int64_t>;

std::vector<OpCase> cases() {
  const auto of = [](std::initializer_list<int64_t> dims) { return CaseInput::of(dims); };
  const auto last = [](OpCase op_case) {
    op_case.name += "_last";
    for (CaseInput& input : op_case.inputs) {
      std::vector<int64_t> dims(input.shape.begin(), input.shape.end());
      std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
      input.shape = Shape(dims);
    }
    op_case.attrs.set("channels_last", int64_t{1});
    op_case.differentiable = false;  // layouts are chosen later
    return op_case;
  };
  std::vector<OpCase> all{
      {"3x3", {of({2, 5, 9, 7}), of({2, 11, 9, 7})}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"1x1", {of({3, 17, 5, 6}), of({3, 9, 5, 6})}, {{"kernel_shape", Ints{1, 1}}}},
      {"depthwise",
       {of({2, 19, 10, 9}), of({2, 19, 9, 8})},
       {{"kernel_shape", Ints{5, 3}}, {"group", int64_t{19}}, {"pads", Ints{2, 0, 1, 1}}}},
      {"depthwise_3x3",
       {of({3, 5, 37, 35}), of({3, 5, 37, 35})},
       {{"kernel_shape", Ints{3, 3}}, {"group", int64_t{5}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"depthwise_5x5_strided",
       {of({2, 6, 31, 30}), of({2, 6, 16, 15})},
       {{"kernel_shape", Ints{5, 5}}, {"group", int64_t{6}}, {"strides", Ints{2, 2}}, {"pads", Ints{2, 2, 2, 1}}}},
      {"depthwise_7x7_long",
       {of({1, 3, 40, 700}), of({1, 3, 40, 700})},
       {{"kernel_shape", Ints{7, 7}}, {"group", int64_t{3}}, {"pads", Ints{3, 3, 3, 3}}}},
      {"depthwise_doubled",
       {of({2, 3, 12, 13}), of({2, 6, 10, 5})},
       {{"kernel_shape", Ints{3, 4}}, {"group", int64_t{3}}, {"strides", Ints{1, 2}}}},
      {"depthwise_dilated",
       {of({1, 4, 20, 21}), of({1, 4, 8, 7})},
       {{"kernel_shape", Ints{2, 3}},
        {"group", int64_t{4}},
        {"dilations", Ints{4, 2}},
        {"strides", Ints{2, 3}},
        {"pads", Ints{0, 1, 0, 2}}}},
      {"depthwise_wide_kernel", {of({1, 3, 30}), of({1, 3, 20})}, {{"kernel_shape", Ints{11}}, {"group", int64_t{3}}}},
      {"1x1_thin", {of({2, 7, 33, 41}), of({2, 13, 33, 41})}, {{"kernel_shape", Ints{1, 1}}}},
      {"1x1_strided", {of({2, 6, 9, 8}), of({2, 5, 5, 4})}, {{"kernel_shape", Ints{1, 1}}, {"strides", Ints{2, 2}}}},
      {"3d", {of({1, 3, 4, 5, 6}), of({1, 2, 3, 4, 5})}, {{"kernel_shape", Ints{2, 2, 2}}}},
      {"grouped",
       {of({1, 12, 8, 8}), of({1, 9, 3, 3})},
       {{"kernel_shape", Ints{3, 3}}, {"group", int64_t{3}}, {"strides", Ints{2, 2}}}},
      {"dilated",
       {of({1, 3, 13, 17}), of({1, 4, 12, 18})},
       {{"kernel_shape", Ints{3, 2}}, {"dilations", Ints{2, 3}}, {"pads", Ints{0, 1, 3, 3}}}},
      {"1d", {of({2, 7, 31}), of({2, 5, 11})}, {{"kernel_shape", Ints{4}}, {"strides", Ints{3}}, {"pads", Ints{2, 1}}}},
      {"bf16",
       {CaseInput::of({2, 20, 9, 7}, DType::bf16), CaseInput::of({2, 33, 9, 7}, DType::bf16)},
       {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}},
      {"bf16_1x1",
       {CaseInput::of({3, 17, 5, 6}, DType::bf16), CaseInput::of({3, 9, 5, 6}, DType::bf16)},
       {{"kernel_shape", Ints{1, 1}}}},
      {"bf16_grouped",
       {CaseInput::of({1, 12, 8, 8}, DType::bf16), CaseInput::of({1, 9, 3, 3}, DType::bf16)},
       {{"kernel_shape", Ints{3, 3}}, {"group", int64_t{3}}, {"strides", Ints{2, 2}}}},
      {"f16",
       {CaseInput::of({1, 3, 5, 5}, DType::f16), CaseInput::of({1, 2, 3, 3}, DType::f16)},
       {{"kernel_shape", Ints{3, 3}}}},
      {"f64",
       {CaseInput::of({1, 3, 5, 5}, DType::f64), CaseInput::of({1, 2, 3, 3}, DType::f64)},
       {{"kernel_shape", Ints{3, 3}}}}};
  for (size_t i = 0, n = all.size(); i < n; ++i) all.push_back(last(all[i]));
  all.push_back(last({"depthwise_many",
                      {of({3, 67, 20, 19}), of({3, 67, 20, 19})},
                      {{"kernel_shape", Ints{5, 5}}, {"group", int64_t{67}}, {"pads", Ints{2, 2, 2, 2}}}}));
  all.push_back(last({"1x1_wide", {of({2, 130, 21, 17}), of({2, 37, 21, 17})}, {{"kernel_shape", Ints{1, 1}}}}));
  return all;
}

constexpr AttrSpec kAttrs[] = {
    {"auto_pad", AttrType::text},   {"channels_last", AttrType::integer},       {"dilations", AttrType::integers},
    {"group", AttrType::integer},   {"kernel_shape", AttrType::integers, true}, {"pads", AttrType::integers},
    {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {
    {.name = "depthwise",
     .accepts = accepts_depthwise,
     .prepare = prepare_depthwise,
     .run = run_depthwise,
     .yields = depthwise_yields},
    {.name = "dense", .accepts = accepts_dense, .prepare = prepare_dense, .run = run_dense, .yields = dense_yields},
    {.name = "onednn",
     .accepts = conv_weight_gradient_onednn_accepts,
     .prepare = conv_weight_gradient_onednn_prepare,
     .run = onednn::run},
    {.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "ConvWeightGradient",
                       .domain = "sparkpilot",
                       .doc = "The gradient of Conv's weights, from its image and the gradient of its output.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.product = true, .channels_last = true, .finite = true},
                       .infer = infer,
                       .cpu = kCpu,
                       .cuda = cuda::kWeightGradient,
                       .grad = gradient,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::conv_weight_gradient_ops

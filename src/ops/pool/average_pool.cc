// AveragePool: the mean of each window; sparkpilot::AveragePool also with channels last.
//
// Padding is not counted, unless `count_include_pad` is set; positions of a last window of `ceil_mode` beyond the
// padding never are. A window entirely in padding gives 0.
#include "ops/axes.h"
#include "ops/conv/window_gradient.h"
#include "ops/cpu/onednn/pool_onednn.h"
#include "ops/cuda/pool_candidates.h"
#include "ops/layout.h"
#include "ops/registry.h"

namespace sparkpilot::average_pool_ops {
namespace {

void run(const Call& c) {
  const PoolShape& s = c.as<PoolState>().shape;
  const bool with_padding = c.attrs().integer("count_include_pad", 0) != 0;
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    for_each_window(s, [&](int64_t n, int64_t channel, const KernelWindow::Dims& start, int64_t at) {
      const T* plane = x + n * s.x.n + channel * s.x.c;
      double sum = 0;
      int64_t count = 0;
      for_each_tap(s.window, start, [&](int64_t d, int64_t h, int64_t i) {
        sum += static_cast<double>(plane[d * s.x.d + h * s.x.h + i * s.x.w]);
        ++count;
      });
      if (with_padding) count = padded_taps(s.window, start);
      y[at] = T(static_cast<Compute<T>>(count > 0 ? sum / static_cast<double>(count) : 0.0));
    });
  });
}

void infer(InferContext& c) {
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  c.output(0, c.dtype(0), pool_shape(c.attrs, c.shape(0)).output());
}

double cost(const Problem& p) { return pool_shape(p.attrs(), p.inputs[0].shape).flops(); }

PoolKind kind(const Problem& p) {
  return p.attrs().integer("count_include_pad", 0) != 0 ? PoolKind::average_with_padding : PoolKind::average;
}

Acceptance onednn_accepts(const Problem& p) {
  return pool_onednn_accepts(p, pool_shape(p.attrs(), p.inputs[0].shape), kind(p));
}

std::unique_ptr<KernelState> onednn_prepare(const Problem& p) {
  return pool_onednn_prepare(p, pool_shape(p.attrs(), p.inputs[0].shape), kind(p));
}

// 1 / the number of elements that a window is the mean of, for each window: [1, 1, spatial].
Tensor shares(const PoolShape& s, bool with_padding, DType dtype) {
  const KernelWindow& w = s.window;
  std::vector<int64_t> dims{1, 1};
  for (const int64_t size : w.spatial(w.out)) dims.push_back(size);
  Tensor out = Tensor::zeros(dtype, Shape(dims));
  for (int64_t i = 0; i < out.elements(); ++i) {
    const KernelWindow::Dims at{i / (w.out[1] * w.out[2]), i / w.out[2] % w.out[1], i % w.out[2]};
    KernelWindow::Dims start{};
    int64_t count = 1;
    for (size_t k = 0; k < start.size(); ++k) {
      start[k] = at[k] * w.stride[k] - w.pad_begin[k];
      const KernelRange taps = inside(start[k], w.kernel[k], w.dilation[k], w.in[k]);
      count *= taps.end - taps.begin;
    }
    if (with_padding) count = padded_taps(w, start);
    store_element(dtype, out.raw(), i, count > 0 ? 1 / static_cast<double>(count) : 0);
  }
  return out;
}

std::vector<ValueId> gradient(GradContext& c) {
  const PoolShape s = pool_shape(c.node.attrs, c.b.shape(c.in(0)));
  const Term g(c.b, c.out_grads[0]);
  const bool with_padding = c.node.attrs.integer("count_include_pad", 0) != 0;
  return {spread_over_windows(g * Term(c.b, c.b.constant(shares(s, with_padding, g.dtype()))), s)};
}

using Ints = std::vector<int64_t>;

std::vector<OpCase> cases() {
  const Ints k3{3, 3}, s2{2, 2}, p1{1, 1, 1, 1};
  const int64_t on = 1;
  return {
      {"padding", {CaseInput::of({2, 19, 9, 7})}, {{"kernel_shape", k3}, {"strides", s2}, {"pads", p1}}},
      {"count_padding", {CaseInput::of({1, 5, 9, 7})}, {{"kernel_shape", k3}, {"pads", p1}, {"count_include_pad", on}}},
      {"ceil", {CaseInput::of({1, 5, 8, 10})}, {{"kernel_shape", k3}, {"strides", s2}, {"ceil_mode", on}}},
      {"ceil_count_padding",
       {CaseInput::of({1, 5, 8, 10})},
       {{"kernel_shape", k3}, {"strides", s2}, {"pads", p1}, {"ceil_mode", on}, {"count_include_pad", on}}},
      {"dilated",
       {CaseInput::of({1, 3, 9, 9})},
       {{"kernel_shape", k3}, {"dilations", Ints{2, 3}}, {"pads", Ints{2, 2, 2, 2}}}},
      {"1d", {CaseInput::of({2, 5, 17})}, {{"kernel_shape", Ints{4}}, {"strides", Ints{3}}}},
      {"3d", {CaseInput::of({1, 17, 4, 6, 5})}, {{"kernel_shape", Ints{2, 3, 2}}}},
      {"f64", {CaseInput::of({1, 3, 6, 6}, DType::f64)}, {{"kernel_shape", k3}}},
      {"f16", {CaseInput::of({1, 3, 6, 6}, DType::f16)}, {{"kernel_shape", k3}}},
      {"bf16", {CaseInput::of({1, 16, 6, 6}, DType::bf16)}, {{"kernel_shape", k3}}}};
}

std::vector<OpCase> channels_last_cases() {
  const int64_t on = 1;
  return {
      {"3x3",
       {CaseInput::of({2, 9, 7, 19})},
       {{"channels_last", on}, {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 1}}}},
      {"count_padding",
       {CaseInput::of({1, 8, 10, 32})},
       {{"channels_last", on}, {"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 1, 0, 1}}, {"count_include_pad", on}}},
      {"whole_image", {CaseInput::of({2, 6, 7, 33})}, {{"channels_last", on}, {"kernel_shape", Ints{6, 7}}}},
      {"whole_image_of_pieces", {CaseInput::of({2, 6, 7, 48})}, {{"channels_last", on}, {"kernel_shape", Ints{6, 7}}}},
      {"whole_planes", {CaseInput::of({2, 5, 6, 7})}, {{"kernel_shape", Ints{6, 7}}}},
      {"channels_first", {CaseInput::of({1, 3, 6, 6})}, {{"kernel_shape", Ints{3, 3}}}},
      {"bf16", {CaseInput::of({1, 6, 6, 16}, DType::bf16)}, {{"channels_last", on}, {"kernel_shape", Ints{3, 3}}}}};
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text},
                               {"ceil_mode", AttrType::integer},
                               {"count_include_pad", AttrType::integer},
                               {"dilations", AttrType::integers},
                               {"kernel_shape", AttrType::integers, true},
                               {"pads", AttrType::integers},
                               {"strides", AttrType::integers}};
constexpr AttrSpec kInternalAttrs[] = {{"auto_pad", AttrType::text},         {"ceil_mode", AttrType::integer},
                                       {"channels_last", AttrType::integer}, {"count_include_pad", AttrType::integer},
                                       {"dilations", AttrType::integers},    {"kernel_shape", AttrType::integers, true},
                                       {"pads", AttrType::integers},         {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {{.name = "onednn", .accepts = onednn_accepts, .prepare = onednn_prepare, .run = onednn::run},
                           {.name = "reference", .prepare = prepare_pool, .run = run}};

const OpDef kOps[] = {{.name = "AveragePool",
                       .doc = "The mean of each window.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .traits = {.finite = true},
                       .infer = infer,
                       .axes = axes_of_pool,
                       .cpu = kCpu,
                       .cuda = cuda::average_pool_candidates(),
                       .grad = gradient,
                       .cost = cost,
                       .cases = cases},
                      {.name = "AveragePool",
                       .domain = "sparkpilot",
                       .doc = "AveragePool in either layout.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kInternalAttrs,
                       .traits = {.channels_last = true, .finite = true},
                       .infer = infer,
                       .axes = axes_of_pool,
                       .cpu = kCpu,
                       .cuda = cuda::average_pool_candidates(),
                       .expand = expand_channels_last,
                       .cost = cost,
                       .cases = channels_last_cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::average_pool_ops

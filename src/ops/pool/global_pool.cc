// GlobalAveragePool, GlobalMaxPool and GlobalLpPool: one number for each channel of an image of any rank.
#include <cmath>

#include "ops/axes.h"
#include "ops/cpu/onednn/pool_onednn.h"
#include "ops/cuda/pool_candidates.h"
#include "ops/formula.h"
#include "ops/pool/p_norm.h"
#include "ops/registry.h"

namespace sparkpilot::global_pool_ops {
namespace {

// Reduces a channel's elements in double; `Fold` has add(x) and result(count).
struct Mean {
  double sum = 0;
  void add(double x) { sum += x; }
  double result(int64_t count) const { return sum / static_cast<double>(count); }
};
struct Largest {
  double best = -INFINITY;
  void add(double x) { best = x > best || x != x ? x : best; }
  double result(int64_t) const { return best; }
};
struct Norm {
  double power, sum = 0;
  void add(double x) { sum += std::pow(std::abs(x), power); }
  double result(int64_t) const { return std::pow(sum, 1 / power); }
};

template <typename Fold>
void fold_channels(const Call& c, const Fold& start) {
  const Shape& shape = c.inputs[0].shape;
  const int64_t channels = shape.elements(0, 2), size = shape.elements(2, shape.rank());
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    parallel_for(channels, 1 + 32768 / (1 + size), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Fold fold = start;
        for (int64_t j = 0; j < size; ++j) fold.add(static_cast<double>(x[i * size + j]));
        y[i] = T(static_cast<Compute<T>>(fold.result(size)));
      }
    });
  });
}

void infer(InferContext& c) {
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  Shape out = c.shape(0);
  if (out.rank() < 2) fail("input has shape {}, expected batch and channels at least", out.str());
  for (int i = 2; i < out.rank(); ++i) {
    if (out[i] == 0) fail("input has shape {}: there is nothing to pool", out.str());
    out = out.with(i, 1);
  }
  c.output(0, c.dtype(0), out);
}

void infer_lp(InferContext& c) {
  if (const int64_t p = c.attrs.integer("p", 2); p < 1) fail("p is {}, expected 1 or more", p);
  infer(c);
}

std::vector<ValueId> expand_real_power(ExpandContext& e) {
  const float p = e.node.attrs.real("p", 2);
  if (!(p >= 1 && p < 1e6f) || p != std::floor(p)) fail("p is {}, expected a whole number of 1 or more", p);
  return {e.b.add("GlobalLpPool", e.node.inputs, {{"p", static_cast<int64_t>(p)}})};
}

template <PoolKind kKind>
Acceptance onednn_accepts(const Problem& p) {
  const int rank = p.inputs[0].shape.rank();
  if (rank < 3 || rank > 2 + KernelWindow::kMaxDims) return fmt::format("rank {}", rank);
  return pool_onednn_accepts(p, global_pool_shape(p.inputs[0].shape), kKind);
}
template <PoolKind kKind>
std::unique_ptr<KernelState> onednn_prepare(const Problem& p) {
  return pool_onednn_prepare(p, global_pool_shape(p.inputs[0].shape), kKind,
                             [](const Call& c) { fold_channels(c, Largest{}); });
}

double cost(const Problem& p) { return static_cast<double>(p.inputs[0].shape.elements()); }
double lp_cost(const Problem& p) { return 10 * cost(p); }

std::vector<OpCase> cases() {
  return {{"2d", {CaseInput::of({2, 35, 7, 5})}, {}},
          {"1d", {CaseInput::of({3, 16, 19})}, {}},
          {"3d", {CaseInput::of({1, 5, 3, 4, 5})}, {}},
          {"no_space", {CaseInput::of({2, 3})}, {}},
          {"f16", {CaseInput::of({1, 3, 6, 6}, DType::f16)}, {}},
          {"bf16", {CaseInput::of({1, 16, 6, 6}, DType::bf16)}, {}}};
}

constexpr AttrSpec kLpAttrs[] = {{"p", AttrType::integer}};
constexpr AttrSpec kOldLpAttrs[] = {{"p", AttrType::real}};
AxisSource axes(const Problem&, int, int axis, size_t) { return axis < 2 ? same_axis(axis) : AxisSource{}; }

constexpr Kernel kAverage[] = {{.name = "onednn",
                                .accepts = onednn_accepts<PoolKind::average>,
                                .prepare = onednn_prepare<PoolKind::average>,
                                .run = onednn::run},
                               {.name = "reference", .run = [](const Call& c) { fold_channels(c, Mean{}); }}};
constexpr Kernel kMax[] = {{.name = "onednn",
                            .accepts = onednn_accepts<PoolKind::max>,
                            .prepare = onednn_prepare<PoolKind::max>,
                            .run = onednn::run},
                           {.name = "reference", .run = [](const Call& c) { fold_channels(c, Largest{}); }}};
constexpr Kernel kLp[] = {{.name = "reference", .run = [](const Call& c) {
                             fold_channels(c, Norm{static_cast<double>(c.attrs().integer("p", 2))});
                           }}};

std::vector<ValueId> gradient_of_average(GradContext& c) {
  const Shape from = c.b.shape(c.node.inputs[0]);
  const double share =
      static_cast<double>(from[0] * from[1]) / static_cast<double>(std::max<int64_t>(1, from.elements()));
  return {c.b.add("Expand", {share * Term(c.b, c.out_grads[0]), c.b.ints(from.dims())})};
}

// Elements that are equally large share it.
std::vector<ValueId> gradient_of_max(GradContext& c) {
  const Term x(c.b, c.in(0)), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  const Term taken = where(node("Equal", x, y), y.number(1), 0);
  return {g / taken.over("ReduceSum", axes_from(2, x.shape().rank())) * taken};
}

std::vector<ValueId> gradient_of_norm(GradContext& c) {
  const Term x(c.b, c.in(0)), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  const int64_t p = c.node.attrs.integer("p", 2);
  return {p_norm_slope(x, p) * p_norm_share(y, g, p)};
}

const OpDef kOps[] = {{.name = "GlobalAveragePool",
                       .doc = "The mean of each channel.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .traits = {.finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kAverage,
                       .cuda = cuda::global_average_pool_candidates(),
                       .grad = gradient_of_average,
                       .cost = cost,
                       .cases = cases},
                      {.name = "GlobalMaxPool",
                       .doc = "The largest element of each channel.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .traits = {.finite = true},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kMax,
                       .cuda = cuda::global_max_pool_candidates(),
                       .grad = gradient_of_max,
                       .cost = cost,
                       .cases = cases},
                      {.name = "GlobalLpPool",
                       .doc = "The p-norm of each channel.",
                       .since = 2,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kLpAttrs,
                       .infer = infer_lp,
                       .axes = axes,
                       .cpu = kLp,
                       .grad = gradient_of_norm,
                       .cost = lp_cost,
                       .cases =
                           [] {
                             std::vector<OpCase> all = cases();
                             all[0].attrs.set("p", int64_t{3});
                             return all;
                           }},
                      {.name = "GlobalLpPool",
                       .doc = "With a real p.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kOldLpAttrs,
                       .infer = infer,
                       .axes = axes,
                       .expand = expand_real_power}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::global_pool_ops

// LpPool: the p-norm of each window, (sum |x|^p)^(1/p), where padding counts as zeros.
//
// Version 1 had a real p; it expands to the newest version if p is a whole number.
#include <cmath>

#include "ops/conv/window_gradient.h"
#include "ops/cpu/conv/pool_shape.h"
#include "ops/pool/p_norm.h"
#include "ops/registry.h"

namespace sparkpilot::lp_pool_ops {
namespace {

void run(const Call& c) {
  const PoolShape& s = c.as<PoolState>().shape;
  const auto power = static_cast<double>(c.attrs().integer("p", 2));
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    for_each_window(s, [&](int64_t n, int64_t channel, const KernelWindow::Dims& start, int64_t at) {
      const T* plane = x + n * s.x.n + channel * s.x.c;
      double sum = 0;
      for_each_tap(s.window, start, [&](int64_t d, int64_t h, int64_t i) {
        sum += std::pow(std::abs(static_cast<double>(plane[d * s.x.d + h * s.x.h + i * s.x.w])), power);
      });
      y[at] = T(static_cast<Compute<T>>(std::pow(sum, 1 / power)));
    });
  });
}

void infer(InferContext& c) {
  if (!contains(FloatTypes{}, c.dtype(0))) fail("input is {}, expected a float type", name(c.dtype(0)));
  if (const int64_t p = c.attrs.integer("p", 2); p < 1) fail("p is {}, expected 1 or more", p);
  c.output(0, c.dtype(0), pool_shape(c.attrs, c.shape(0)).output());
}

std::vector<ValueId> expand_real_power(ExpandContext& e) {
  Attributes attrs = e.node.attrs;
  const float p = attrs.real("p", 2);
  if (!(p >= 1 && p < 1e6f) || p != std::floor(p)) fail("p is {}, expected a whole number of 1 or more", p);
  attrs.set("p", static_cast<int64_t>(p));
  return {e.b.add("LpPool", e.node.inputs, attrs)};
}

std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), y(c.b, c.node.outputs[0]), g(c.b, c.out_grads[0]);
  const int64_t p = c.node.attrs.integer("p", 2);
  return {p_norm_slope(x, p) * spread_over_windows(p_norm_share(y, g, p), pool_shape(c.node.attrs, x.shape()))};
}

double cost(const Problem& p) { return 10 * pool_shape(p.attrs(), p.inputs[0].shape).flops(); }

std::vector<OpCase> cases() {
  using Ints = std::vector<int64_t>;
  return {{"plain", {CaseInput::of({2, 3, 7, 5})}, {{"kernel_shape", Ints{3, 2}}}},
          {"p3",
           {CaseInput::of({1, 3, 7, 6})},
           {{"kernel_shape", Ints{3, 2}}, {"p", int64_t{3}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}}},
          {"ceil_dilated",
           {CaseInput::of({1, 2, 12})},
           {{"kernel_shape", Ints{3}}, {"dilations", Ints{2}}, {"strides", Ints{3}}, {"ceil_mode", int64_t{1}}}},
          {"f16", {CaseInput::of({1, 2, 3, 4, 5}, DType::f16)}, {{"kernel_shape", Ints{2, 2, 2}}}}};
}

constexpr AttrSpec kAttrs[] = {{"auto_pad", AttrType::text},      {"ceil_mode", AttrType::integer},
                               {"dilations", AttrType::integers}, {"kernel_shape", AttrType::integers, true},
                               {"p", AttrType::integer},          {"pads", AttrType::integers},
                               {"strides", AttrType::integers}};
constexpr AttrSpec kOldAttrs[] = {{"auto_pad", AttrType::text},
                                  {"kernel_shape", AttrType::integers, true},
                                  {"p", AttrType::real},
                                  {"pads", AttrType::integers},
                                  {"strides", AttrType::integers}};
constexpr Kernel kCpu[] = {{.name = "reference", .prepare = prepare_pool, .run = run}};

const OpDef kOps[] = {
    {.name = "LpPool",
     .doc = "The p-norm of each window.",
     .since = 2,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .infer = infer,
     .cpu = kCpu,
     .grad = gradient,
     .cost = cost,
     .cases = cases},
    {.name = "LpPool",
     .doc = "With a real p.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kOldAttrs,
     .infer = [](InferContext& c) { c.output(0, c.dtype(0), pool_shape(c.attrs, c.shape(0)).output()); },
     .expand = expand_real_power}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::lp_pool_ops

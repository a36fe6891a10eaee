// GroupNormalization and InstanceNormalization: normalise each group of channels of each image to zero mean and unit
// variance, then apply a scale and a bias per channel. An instance is a group of one channel.
//
// Until opset 20 GroupNormalization had one scale per group; that version expands to the newest.
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/cpu/vector/row_norm.h"
#include "ops/expect.h"
#include "ops/norm/norm_gradient.h"
#include "ops/registry.h"

namespace sparkpilot::group_norm_ops {
namespace {

struct Layout {
  int64_t batch, channels, groups, pixels;  // pixels: elements of one channel of one image
  int64_t group_channels() const { return channels / groups; }
  int64_t group_elements() const { return group_channels() * pixels; }
};

template <bool kInstance>
Layout layout_of(const Shape& x, const Attributes& attrs) {
  const int64_t channels = x[1];
  return {x[0], channels, kInstance ? channels : attrs.integer("num_groups"), x.elements(2, x.rank())};
}

// Calls fn(first element of the group, first channel of the group) for all groups of all images.
template <typename Fn>
void for_groups(const Layout& l, Fn fn) {
  parallel_for(l.batch * l.groups, 1 + 16384 / (l.group_elements() + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i * l.group_elements(), i % l.groups * l.group_channels());
  });
}

template <bool kInstance>
void run_reference(const Call& c) {
  const ConstView& x = c.inputs[0];
  const Layout l = layout_of<kInstance>(x.shape, c.attrs());
  if (x.elements() == 0) return;
  const double epsilon = c.attrs().real("epsilon", 1e-5f);
  const auto size = static_cast<double>(l.group_elements());
  dispatch(FloatTypes{}, x.dtype, [&]<typename T>() {
    for_groups(l, [&](int64_t first, int64_t channel) {
      const T* in = x.as<T>() + first;
      T* out = c.outputs[0].as<T>() + first;
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < l.group_elements(); ++i) mean += static_cast<double>(in[i]);
      mean /= size;
      for (int64_t i = 0; i < l.group_elements(); ++i) {
        const double distance = static_cast<double>(in[i]) - mean;
        variance += distance * distance;
      }
      const double inverse = 1 / std::sqrt(variance / size + epsilon);
      for (int64_t i = 0; i < l.group_elements(); ++i) {
        const int64_t k = channel + i / l.pixels;
        const double y = (static_cast<double>(in[i]) - mean) * inverse * static_cast<double>(c.inputs[1].as<T>()[k]) +
                         static_cast<double>(c.inputs[2].as<T>()[k]);
        out[i] = T(static_cast<Compute<T>>(y));
      }
    });
  });
}

Acceptance accepts_simd(const Problem& p) {
  if (p.inputs[0].dtype != DType::f32) return fmt::format("{} input", name(p.inputs[0].dtype));
  return true;
}

template <bool kInstance>
void run_simd(const Call& c) {
  const ConstView& x = c.inputs[0];
  const Layout l = layout_of<kInstance>(x.shape, c.attrs());
  if (x.elements() == 0) return;
  const float epsilon = c.attrs().real("epsilon", 1e-5f);
  const float *scale = c.inputs[1].as<float>(), *bias = c.inputs[2].as<float>();
  for_groups(l, [&](int64_t first, int64_t channel) {
    const float* in = x.as<float>() + first;
    float* out = c.outputs[0].as<float>() + first;
    const Moments m = row_moments(in, l.group_elements());
    const float inverse = 1 / std::sqrt(m.variance + epsilon);
    for (int64_t k = 0; k < l.group_channels(); ++k) {
      row_affine(in + k * l.pixels, out + k * l.pixels, l.pixels, m.mean, inverse * scale[channel + k],
                 bias[channel + k]);
    }
  });
}

int64_t checked_groups(int64_t groups, int64_t channels) {
  if (groups <= 0 || channels % groups != 0) fail("{} channels do not divide into {} groups", channels, groups);
  return groups;
}

template <bool kInstance>
void infer(InferContext& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, Shape::kMaxRank);
  const int64_t channels = c.shape(0)[1];
  if (!kInstance) checked_groups(c.attrs.integer("num_groups"), channels);
  for (int i = 1; i <= 2; ++i) {
    expect_same_dtype(c, i, 0);
    expect_shape(c, i, {channels});
  }
  c.output(0, c.dtype(0), c.shape(0));
}

// Repeats the scale and bias of each group for its channels.
std::vector<ValueId> expand_scale_of_group(ExpandContext& e) {
  const Shape x = e.b.shape(e.in(0));
  if (x.rank() < 2) fail("input has rank {}, expected at least 2", x.rank());
  const int64_t groups = checked_groups(e.node.attrs.integer("num_groups"), x[1]);
  const auto repeat = [&](ValueId v) {
    if (!(e.b.shape(v) == Shape{groups})) {
      fail("scale or bias has shape {}, expected [{}]", e.b.shape(v).str(), groups);
    }
    const ValueId column = e.b.add("Reshape", {v, e.b.ints({groups, 1})});
    const ValueId wide = e.b.add("Expand", {column, e.b.ints({groups, x[1] / groups})});
    return e.b.add("Reshape", {wide, e.b.ints({x[1]})});
  };
  return {e.b.add("GroupNormalization", {e.in(0), repeat(e.in(1)), repeat(e.in(2))}, e.node.attrs)};
}

template <bool kInstance>
std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), scale(c.b, c.in(1)), g(c.b, c.out_grads[0]);
  const Layout l = layout_of<kInstance>(x.shape(), c.node.attrs);
  const Shape grouped{l.batch, l.groups, l.group_channels(), l.pixels}, planes{l.batch, l.channels, l.pixels};
  const Normalized n = normalized(x.as(grouped), {2, 3}, c.node.attrs.real("epsilon", 1e-5f), true);
  const auto of_channels = [&](Term v) {
    return Term(c.b, c.b.add("ReduceSum", {v.as(planes), c.b.ints({0, 2})}, {{"keepdims", int64_t{0}}}));
  };
  const Term flow = g.as(grouped) * scale.as(Shape{1, l.groups, l.group_channels(), 1});
  return {gradient_of(n, flow).as(x.shape()), of_channels(g.as(grouped) * n.value), of_channels(g)};
}

double cost(const Problem& p) { return 8.0 * static_cast<double>(p.inputs[0].shape.elements()); }

std::vector<OpCase> cases(const Attributes& attrs) {
  const auto c = CaseInput::of({6});
  return {{"image", {CaseInput::of({2, 6, 5, 7}), c, c}, attrs},
          {"matrix", {CaseInput::of({3, 6}), c, c}, attrs},
          {"volume", {CaseInput::of({1, 6, 3, 4, 5}), c, c}, attrs},
          {"large", {CaseInput::of({1, 6, 67, 33}), c, c}, attrs},
          {"f16",
           {CaseInput::of({2, 6, 9}, DType::f16), CaseInput::of({6}, DType::f16), CaseInput::of({6}, DType::f16)},
           attrs}};
}

constexpr AttrSpec kGroupAttrs[] = {
    {"num_groups", AttrType::integer, true}, {"epsilon", AttrType::real}, {"stash_type", AttrType::integer}};
constexpr AttrSpec kOldGroupAttrs[] = {{"num_groups", AttrType::integer, true}, {"epsilon", AttrType::real}};
constexpr AttrSpec kInstanceAttrs[] = {{"epsilon", AttrType::real}, {"consumed_inputs", AttrType::integers}};
constexpr Kernel kGroup[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd<false>},
                             {.name = "reference", .run = run_reference<false>}};
constexpr Kernel kInstance[] = {{.name = "simd", .accepts = accepts_simd, .run = run_simd<true>},
                                {.name = "reference", .run = run_reference<true>}};

const OpDef kOps[] = {
    {.name = "GroupNormalization",
     .doc = "Zero mean and unit variance within groups of channels, then scale and bias for each channel.",
     .since = 21,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kGroupAttrs,
     .traits = {.in_place = over_any_input, .finite = true},
     .infer = infer<false>,
     .axes = axes_of_entries,
     .cpu = kGroup,
     .grad = gradient<false>,
     .cost = cost,
     .cases =
         [] {
           return cases({{"num_groups", int64_t{3}}, {"epsilon", 0.01f}});
         }},
    {.name = "GroupNormalization",
     .doc = "Scale and bias for each group.",
     .since = 18,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kOldGroupAttrs,
     .expand = expand_scale_of_group},
    {.name = "InstanceNormalization",
     .doc = "Zero mean and unit variance of each channel of each image, then scale and bias.",
     .since = 1,
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attributes = kInstanceAttrs,
     .traits = {.in_place = over_any_input, .finite = true},
     .infer = infer<true>,
     .axes = axes_of_entries,
     .cpu = kInstance,
     .grad = gradient<true>,
     .cost = cost,
     .cases =
         [] {
           return cases({{"epsilon", 0.01f}});
         }},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::group_norm_ops

// Resize, its older versions, and Upsample, its name until opset 9. resize_tables.h defines what is computed.
//
// sparkpilot::Resize is the same op with the attribute `channels_last`: data as N, spatial, C, operands unchanged.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/parallel.h"
#include "ir/resize.h"
#include "ops/axes.h"
#include "ops/cpu/move/resize_rows.h"
#include "ops/cpu/move/resize_tables.h"
#include "ops/cuda/gather_candidates.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::resize_ops {
namespace {

Tensor borrow(const ConstView& view) {
  Tensor out(view.dtype, view.shape);
  std::memcpy(out.raw(), view.data, static_cast<size_t>(view.bytes()));
  return out;
}

// ---------------------------------------------------------------- reference
struct Plan {
  std::vector<ResizeAxis> axes;
  float extrapolation = 0;
};

Plan make_plan(const Node& node, const Shape& x, const Shape& y, const ResizeOperands& operands) {
  Plan plan;
  if (y.elements() == 0) return plan;
  const ResizeMode mode(node.attrs);
  plan.extrapolation = mode.extrapolation;
  for (const ResizeExtent& extent : resize_extents(x, node.attrs, operands)) {
    plan.axes.push_back(resize_axis(extent, mode));
  }
  return plan;
}

struct ReferenceState final : KernelState {
  Plan plan;
};

// Without a state if operands are known only at run time: run() then makes the tables.
std::unique_ptr<KernelState> prepare_reference(const Problem& p) {
  if (!resize_operands_constant(p)) return nullptr;
  auto state = std::make_unique<ReferenceState>();
  state->plan = make_plan(*p.node, p.inputs[0].shape, p.outputs[0].shape, resize_operands(p));
  return state;
}

using Position = std::array<int64_t, Shape::kMaxRank>;

// The weighted sum of the taps of all axes, from axis `at` on.
template <typename T>
double sample(const T* x, const Plan& plan, const Position& strides, const Position& position, size_t at) {
  if (at == plan.axes.size()) return static_cast<double>(*x);
  const ResizeAxis& axis = plan.axes[at];
  if (axis.identity) return sample(x + position[at] * strides[at], plan, strides, position, at + 1);
  double sum = 0;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const auto slot = static_cast<size_t>(tap * axis.out + position[at]);
    const double weight = axis.weight[slot];
    if (weight != 0) sum += weight * sample(x + axis.index[slot] * strides[at], plan, strides, position, at + 1);
  }
  return sum;
}

template <typename T>
T rounded_to(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return 0;
    const double nearest = std::nearbyint(value);
    if (nearest <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (nearest >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(nearest);
  } else {
    return T(static_cast<Compute<T>>(value));
  }
}

// Calls fn(flat index, position, whether to use the extrapolation value) for each output element.
template <typename Fn>
void for_positions(const Shape& y, const Plan& plan, Fn fn) {
  parallel_for(y.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t flat = begin; flat < end; ++flat) {
      Position position{};
      bool replaced = false;
      int64_t rest = flat;
      for (int i = y.rank() - 1; i >= 0; --i) {
        const auto at = static_cast<size_t>(i);
        position[at] = rest % y[i];
        rest /= y[i];
        const auto& outside = plan.axes[at].replaced;
        replaced |= !outside.empty() && outside[static_cast<size_t>(position[at])] != 0;
      }
      fn(flat, position, replaced);
    }
  });
}

void copy_nearest(const Call& c, const Plan& plan) {
  const Position strides = c.inputs[0].shape.strides();
  const DType dtype = c.outputs[0].dtype;
  dispatch_size(dtype, [&]<typename T>() {
    T extrapolation{};
    store_element(dtype, &extrapolation, 0, static_cast<double>(plan.extrapolation));
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    for_positions(c.outputs[0].shape, plan, [&](int64_t flat, const Position& position, bool replaced) {
      int64_t offset = 0;
      for (size_t i = 0; i < plan.axes.size(); ++i) {
        const ResizeAxis& axis = plan.axes[i];
        offset += strides[i] * (axis.identity ? position[i] : axis.index[static_cast<size_t>(position[i])]);
      }
      y[flat] = replaced ? extrapolation : x[offset];
    });
  });
}

void run_reference(const Call& c) {
  if (c.outputs[0].elements() == 0) return;
  Plan made;
  if (!c.state) {
    ResizeOperands operands;
    if (c.has(1)) operands.roi = borrow(c.inputs[1]);
    if (c.has(2)) operands.scales = borrow(c.inputs[2]);
    if (c.has(3)) operands.sizes = borrow(c.inputs[3]);
    made = make_plan(*c.node, c.inputs[0].shape, c.outputs[0].shape, operands);
    for (size_t i = 0; i < made.axes.size(); ++i) {
      if (made.axes[i].out != c.outputs[0].shape[static_cast<int>(i)]) fail("operands changed after they were read");
    }
  }
  const Plan& plan = c.state ? c.as<ReferenceState>().plan : made;
  if (ResizeMode(c.attrs()).kind == ResizeMode::nearest) return copy_nearest(c, plan);
  const Position strides = c.inputs[0].shape.strides();
  dispatch(NumericTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    for_positions(c.outputs[0].shape, plan, [&](int64_t flat, const Position& position, bool replaced) {
      y[flat] =
          rounded_to<T>(replaced ? static_cast<double>(plan.extrapolation) : sample(x, plan, strides, position, 0));
    });
  });
}

// ---------------------------------------------------------------- the records
void infer(InferContext& c) {
  const ResizeMode mode(c.attrs);
  if (mode.kind != ResizeMode::nearest) expect_dtype(c, 0, NumericTypes{}, "a number type for this mode");
  else if (bits(c.dtype(0)) < 8) fail("input 0 is {}, which is packed", name(c.dtype(0)));
  if (mode.antialias && mode.kind == ResizeMode::nearest) fail("antialias needs mode linear or cubic");
  ResizeOperands operands;
  if (c.has(1) && mode.coordinates == ResizeMode::tf_crop_and_resize) operands.roi = c.known(1);
  if (c.has(2)) operands.scales = c.known(2);
  if (c.has(3)) operands.sizes = c.known(3);
  std::vector<int64_t> dims;
  for (const ResizeExtent& extent : resize_extents(c.shape(0), c.attrs, operands)) dims.push_back(extent.out);
  c.output(0, c.dtype(0), Shape(dims));
}

// Upsample and the first Resize: positions are x / scale. The nearest element is the one below, and on axes that shrink
// the one above (as ONNX Runtime has it, and ONNX's cases of that opset).
std::vector<ValueId> expand_asymmetric(ExpandContext& e) {
  const Attributes& old = e.node.attrs;
  std::string mode = old.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  ValueId scales = e.in(1);
  if (old.has("scales") || old.has("height_scale")) {
    std::vector<float> values = old.reals("scales");
    if (values.empty()) values = {1, 1, old.real("height_scale", 1), old.real("width_scale", 1)};
    scales = e.b.constant(Tensor::of<float>(Shape{static_cast<int64_t>(values.size())}, values));
  }
  // A form that files can hold, where the scales are known to have one.
  std::string_view nearest = kRoundByScale;
  const Tensor* known = e.b.graph().constant(scales);
  if (known && known->dtype() == DType::f32) {
    const auto all = [&](auto holds) { return std::ranges::all_of(known->data<float>(), holds); };
    if (all([](float scale) { return scale >= 1; })) nearest = "floor";
    else if (all([](float scale) { return scale <= 1; })) nearest = "ceil";
  }
  Attributes attrs{{"mode", mode}, {"coordinate_transformation_mode", "asymmetric"}};
  attrs.set("nearest_mode", std::string(mode == "nearest" ? nearest : "floor"));
  return {e.b.add("Resize", {e.in(0), {}, scales}, attrs)};
}

// An axis as a matrix [positions, elements] of what each position reads; none where the extrapolation value is used.
Tensor matrix_of(const ResizeAxis& axis, DType dtype) {
  Tensor out = Tensor::zeros(DType::f64, Shape{axis.out, axis.in});
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    for (int64_t i = 0; i < axis.out; ++i) {
      const auto slot = static_cast<size_t>(tap * axis.out + i);
      if (!axis.replaced.empty() && axis.replaced[static_cast<size_t>(i)] != 0) continue;
      out.data<double>()[static_cast<size_t>(i * axis.in + axis.index[slot])] +=
          axis.weight.empty() ? 1 : axis.weight[slot];
    }
  }
  return convert(out, dtype);
}

// Resampling is a product with a matrix for each axis, so the way back is a product with each of them transposed.
std::vector<ValueId> gradient(GradContext& c) {
  Term g(c.b, c.out_grads[0]);
  const Shape x = c.b.shape(c.in(0));
  const ResizeMode mode(c.node.attrs);
  ResizeOperands operands;
  Tensor* const wanted[] = {mode.coordinates == ResizeMode::tf_crop_and_resize ? &operands.roi : nullptr,
                            &operands.scales, &operands.sizes};
  for (size_t i = 0; i < 3; ++i) {
    if (!wanted[i] || !c.has(i + 1)) continue;
    const Tensor* const constant = c.b.graph().constant(c.in(i + 1));
    if (!constant) fail("input {} is computed", i + 1);
    *wanted[i] = *constant;
  }
  if (g.shape().elements() == 0) return {zeros(c.b, g.dtype(), x)};
  const std::vector<ResizeExtent> extents = resize_extents(x, c.node.attrs, operands);
  for (int i = 0; i < x.rank(); ++i) {
    const ResizeAxis axis = resize_axis(extents[static_cast<size_t>(i)], mode);
    if (axis.identity) continue;
    std::vector<int64_t> order = axes_from(0, x.rank());
    std::swap(order[static_cast<size_t>(i)], order.back());
    const bool last = i == x.rank() - 1;
    const Term product = node("MatMul", last ? g : g.swapped(order), {c.b, c.b.constant(matrix_of(axis, g.dtype()))});
    g = last ? product : product.swapped(order);
  }
  return {g};
}

double cost(const Problem& p) {
  const ResizeMode mode(p.attrs());
  const double taps = mode.kind == ResizeMode::nearest ? 0 : mode.kind == ResizeMode::linear ? 8 : 32;
  return taps * static_cast<double>(p.outputs[0].shape.elements());
}

OpCase make_case(std::string name, const Shape& x, std::vector<float> scales, Attributes attrs,
                 DType dtype = DType::f32) {
  const auto count = static_cast<int64_t>(scales.size());
  return {std::move(name),
          {dtype == DType::f32 ? CaseInput::of(x) : CaseInput::range(x, 0, 100, dtype), CaseInput::none(),
           CaseInput::value(Tensor::of<float>({count}, scales))},
          std::move(attrs)};
}

std::vector<OpCase> cases() {
  const Attributes linear{{"mode", "linear"}}, cubic{{"mode", "cubic"}};
  std::vector<OpCase> out{
      make_case("double", {2, 3, 5, 7}, {1, 1, 2, 2}, {}),
      make_case("shrink", {1, 2, 9, 20}, {1, 1, 0.4f, 0.7f}, {{"nearest_mode", "ceil"}}),
      make_case("linear", {1, 3, 5, 19}, {1, 1, 2, 1.7f}, linear),
      make_case("linear_one_axis", {3, 19}, {1, 2.5f}, {{"mode", "linear"}, {"exclude_outside", int64_t{1}}}),
      make_case("middle_axes", {2, 5, 7, 19}, {1, 2, 3, 1}, linear),
      make_case("antialias", {1, 1, 17, 23}, {1, 1, 0.3f, 0.45f}, {{"mode", "cubic"}, {"antialias", int64_t{1}}}),
      make_case("volume", {1, 1, 3, 4, 5}, {1, 1, 2, 2, 2}, cubic),
      make_case("bytes", {1, 1, 4, 5}, {1, 1, 2, 3}, linear, DType::u8),
      make_case("words", {4, 5}, {2, 3}, {{"coordinate_transformation_mode", "align_corners"}}, DType::i64)};
  out.push_back({"crop",
                 {CaseInput::of({1, 1, 4, 5}), CaseInput::value(Tensor::of<float>({4}, {0.4f, 0.2f, 1.3f, 0.8f})),
                  CaseInput::none(), CaseInput::value(Tensor::ints({3, 3}))},
                 {{"mode", "linear"},
                  {"axes", std::vector<int64_t>{2, 3}},
                  {"coordinate_transformation_mode", "tf_crop_and_resize"},
                  {"extrapolation_value", 10.0f}}});
  out.push_back(
      {"keep_aspect",
       {CaseInput::of({1, 1, 4, 6}), CaseInput::none(), CaseInput::none(), CaseInput::value(Tensor::ints({7, 8}))},
       {{"axes", std::vector<int64_t>{-2, -1}}, {"keep_aspect_ratio_policy", "not_larger"}}});
  return out;
}

std::vector<OpCase> channels_last_cases() {
  const int64_t one = 1;
  return {make_case("double", {2, 5, 7, 19}, {1, 1, 2, 2}, {{"channels_last", one}}),
          make_case("linear", {1, 5, 7, 19}, {1, 1, 2, 1.7f}, {{"channels_last", one}, {"mode", "linear"}}),
          make_case("channels_first", {1, 3, 5, 7}, {1, 1, 2, 1.7f}, {{"mode", "linear"}})};
}

constexpr AttrSpec kAttrs[] = {{"antialias", AttrType::integer},
                               {"axes", AttrType::integers},
                               {"coordinate_transformation_mode", AttrType::text},
                               {"cubic_coeff_a", AttrType::real},
                               {"exclude_outside", AttrType::integer},
                               {"extrapolation_value", AttrType::real},
                               {"keep_aspect_ratio_policy", AttrType::text},
                               {"mode", AttrType::text},
                               {"nearest_mode", AttrType::text}};
constexpr AttrSpec kInternalAttrs[] = {{"antialias", AttrType::integer},
                                       {"axes", AttrType::integers},
                                       {"channels_last", AttrType::integer},
                                       {"coordinate_transformation_mode", AttrType::text},
                                       {"cubic_coeff_a", AttrType::real},
                                       {"exclude_outside", AttrType::integer},
                                       {"extrapolation_value", AttrType::real},
                                       {"keep_aspect_ratio_policy", AttrType::text},
                                       {"mode", AttrType::text},
                                       {"nearest_mode", AttrType::text}};
constexpr AttrSpec kOldAttrs[] = {{"mode", AttrType::text}};
constexpr AttrSpec kUpsample7Attrs[] = {{"mode", AttrType::text}, {"scales", AttrType::reals, true}};
constexpr AttrSpec kUpsample1Attrs[] = {
    {"mode", AttrType::text}, {"height_scale", AttrType::real, true}, {"width_scale", AttrType::real, true}};
AxisSource axes(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  if (!resize_operands_constant(p) || p.has(3)) return {};  // `sizes` fixes the size of the output
  const ResizeExtent extent =
      resize_extents(p.inputs[0].shape, p.attrs(), resize_operands(p))[static_cast<size_t>(axis)];
  if (extent.start != 0 || extent.end != 1) return {};
  return extent.in == extent.out && extent.scale == 1 ? same_axis(axis) : window_axis(axis);
}

constexpr Kernel kCpu[] = {
    {.name = "simd", .accepts = accepts_resize_rows, .prepare = prepare_resize_rows, .run = run_resize_rows},
    {.name = "reference", .prepare = prepare_reference, .run = run_reference},
};

const OpDef kOps[] = {
    {.name = "Resize",
     .doc = "Resampling to another size: nearest, linear or cubic.",
     .since = 11,
     .inputs = {1, 4},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.finite = true},
     .infer = infer,
     .axes = axes,
     .cpu = kCpu,
     .cuda = cuda::kResize,
     .grad = gradient,
     .cost = cost,
     .cases = cases},
    {.name = "Resize",
     .domain = "sparkpilot",
     .doc = "Resize that knows images as N, spatial, C.",
     .since = 1,
     .inputs = {1, 4},
     .outputs = {1, 1},
     .attributes = kInternalAttrs,
     .traits = {.channels_last = true, .finite = true},
     .infer = infer,
     .axes = axes,
     .cpu = kCpu,
     .cuda = cuda::kResize,
     .grad = gradient,
     .cost = cost,
     .cases = channels_last_cases},
    {.name = "Resize",
     .doc = "Scales only.",
     .since = 10,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kOldAttrs,
     .expand = expand_asymmetric},
    {.name = "Upsample",
     .doc = "Resize's first name; scales as an input.",
     .since = 9,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kOldAttrs,
     .expand = expand_asymmetric},
    {.name = "Upsample",
     .doc = "Scales as an attribute.",
     .since = 7,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kUpsample7Attrs,
     .expand = expand_asymmetric},
    {.name = "Upsample",
     .doc = "Scales of height and width as attributes.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kUpsample1Attrs,
     .expand = expand_asymmetric},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::resize_ops

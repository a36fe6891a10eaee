// Slice: every `step`-th element from `start` (inclusive) to `end` (exclusive) along some axes; both count from the end
// if negative and are clamped. Steps may be negative.
#include <algorithm>

#include "base/error.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::slice_ops {
namespace {

struct Cut {
  int64_t start, step, count;
};

// One axis of `size` elements.
Cut cut(int64_t size, int64_t start, int64_t end, int64_t step) {
  if (step == 0) fail("the step is 0");
  // Steps larger than any dimension are equivalent; clamped so that nothing below overflows.
  step = std::clamp(step, -Shape::kMaxElements - 1, Shape::kMaxElements + 1);
  const auto clamped = [&](int64_t at, int64_t low, int64_t high) {
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  if (step > 0) {
    start = clamped(start, 0, size);
    end = clamped(end, 0, size);
    return {start, step, std::max<int64_t>(0, (end - start + step - 1) / step)};
  }
  if (size == 0) return {0, step, 0};
  start = clamped(start, 0, size - 1);  // ONNX's rule; Python would start before the first element
  end = clamped(end, -1, size - 1);
  return {start, step, std::max<int64_t>(0, (start - end - step - 1) / -step)};
}

void infer(InferContext& c) {
  Shape out = c.shape(0);
  const std::vector<int64_t> starts = list_operand(c, 1), ends = list_operand(c, 2);
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (c.has(3)) axes = list_operand(c, 3);
  if (c.has(4)) steps = list_operand(c, 4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    fail("{} starts, {} ends, {} axes and {} steps given", starts.size(), ends.size(), axes.size(), steps.size());
  }
  const std::vector<int> at = distinct_axes(axes, out.rank());
  for (size_t i = 0; i < at.size(); ++i) {
    out.set(at[i], cut(c.shape(0)[at[i]], starts[i], ends[i], steps[i]).count);
  }
  c.output(0, c.dtype(0), out);
}

void run(const Call& c) {
  const ConstView& in = c.inputs[0];
  const Shape& out = c.outputs[0].shape;
  const IntOperand starts(c.inputs[1]), ends(c.inputs[2]);
  const IntOperand axes = c.has(3) ? IntOperand(c.inputs[3]) : IntOperand();
  const IntOperand steps = c.has(4) ? IntOperand(c.inputs[4]) : IntOperand();
  auto from = in.shape.strides();
  int64_t origin = 0;
  for (int64_t i = 0; i < starts.size(); ++i) {
    const int axis = normalize_axis(axes.present() ? axes[i] : i, out.rank());
    const Cut part = cut(in.shape[axis], starts[i], ends[i], steps.present() ? steps[i] : 1);
    if (part.count != out[axis]) fail("axis {} gives {} elements, planned were {}", axis, part.count, out[axis]);
    origin += part.count > 0 ? part.start * from[static_cast<size_t>(axis)] : 0;
    from[static_cast<size_t>(axis)] *= part.step;
  }
  const auto to = out.strides();
  CopyLoops loops;
  for (int i = 0; i < out.rank(); ++i) loops.add(out[i], from[static_cast<size_t>(i)], to[static_cast<size_t>(i)]);
  copy_strided(in.dtype, loops, in.data, origin, c.outputs[0].data, 0);
}

std::vector<ValueId> expand_attributes(ExpandContext& e) {
  const Attributes& attrs = e.node.attrs;
  return {e.b.add("Slice", {e.in(0), e.b.ints(attrs.integers("starts")), e.b.ints(attrs.integers("ends")),
                            attrs.has("axes") ? e.b.ints(attrs.integers("axes")) : ValueId{}})};
}

std::vector<OpCase> cases() {
  const auto ints = [](std::initializer_list<int64_t> v) { return CaseInput::value(Tensor::ints(v)); };
  return {
      {"ranges", {CaseInput::of({5, 7}), ints({1, 2}), ints({4, -1})}, {}},
      {"axes", {CaseInput::of({3, 5, 7}), ints({0, -3}), ints({2, INT64_MAX}), ints({1, -1})}, {}},
      {"steps", {CaseInput::of({9, 11}), ints({1, 0}), ints({9, 11}), ints({0, 1}), ints({3, 2})}, {}},
      {"backwards", {CaseInput::of({4, 9}), ints({-1, 99}), ints({INT64_MIN, 1}), ints({0, 1}), ints({-1, -2})}, {}},
      {"empty", {CaseInput::of({4, 9}), ints({3}), ints({1})}, {}},
      {"huge_step", {CaseInput::of({9}), ints({8}), ints({INT64_MIN}), ints({0}), ints({INT64_MIN})}, {}},
      {"packed", {CaseInput::range({3, 5}, -8, 7, DType::i4), ints({1}), ints({4}), ints({1})}, {}}};
}

AxisSource axes_of_slice(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const int rank = p.inputs[0].shape.rank();
  const auto axes = constant_list(p, 3), steps = constant_list(p, 4);
  if (!axes || !steps) return {};
  if (std::any_of(steps->begin(), steps->end(), [](int64_t step) { return step < 0; })) return {};  // reversed
  const bool listed =
      std::any_of(axes->begin(), axes->end(), [&](int64_t a) { return normalize_axis(a, rank) == axis; });
  return (p.has(3) ? listed : axis < p.inputs[1].shape.elements()) ? window_axis(axis) : same_axis(axis);
}

cuda::CopyParts parts(const Problem& p) {
  for (size_t i = 1; i < p.inputs.size(); ++i) {
    if (p.has(i) && !p.is_constant(i)) return {{}, "the range is not constant"};
  }
  const Shape &in = p.inputs[0].shape, &out = p.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  cuda::CopyPart part;
  part.sizes.assign(out.begin(), out.end());
  part.from_strides.assign(from.begin(), from.begin() + in.rank());
  part.to_strides.assign(to.begin(), to.begin() + out.rank());
  const std::vector<int64_t> starts = p.constants[1].to_ints(), ends = p.constants[2].to_ints();
  for (size_t i = 0; i < starts.size(); ++i) {
    const int axis = normalize_axis(p.has(3) ? p.constants[3].to_ints()[i] : static_cast<int64_t>(i), in.rank());
    const Cut range = cut(in[axis], starts[i], ends[i], p.has(4) ? p.constants[4].to_ints()[i] : 1);
    int64_t& stride = part.from_strides[static_cast<size_t>(axis)];
    if (range.count > 0) part.from += range.start * stride;
    if (range.count > 1) stride *= range.step;
  }
  return {{part}};
}

Term backwards(Term g, int axis) {
  Builder& b = g.builder();
  return {b, b.add("Slice", {g, b.ints({-1}), b.ints({INT64_MIN}), b.ints({axis}), b.ints({-1})})};
}

// `apart` - 1 zeros after each element.
Term spread(Term g, int axis, int64_t apart) {
  Builder& b = g.builder();
  const Shape shape = g.shape();
  std::vector<int64_t> pads(2 * static_cast<size_t>(shape.rank() + 1));
  pads[static_cast<size_t>(shape.rank() + 1 + axis + 1)] = apart - 1;
  const Term wide(b, b.add("Pad", {g.as(shape.inserted(axis + 1, 1)), b.ints(pads)}));
  return wide.as(shape.with(axis, shape[axis] * apart));
}

// Zeros around what was taken, and between its elements where a step left some out.
std::vector<ValueId> gradient(GradContext& c) {
  const Shape from = c.b.shape(c.in(0));
  const auto ints = [&](size_t i) { return constant_ints(c, i); };
  const std::vector<int64_t> starts = ints(1), ends = ints(2), axes = ints(3), steps = ints(4);
  std::vector<int64_t> pads(2 * static_cast<size_t>(from.rank()));
  Term g(c.b, c.out_grads[0]);
  if (g.shape().elements() == 0) return {zeros(c.b, g.dtype(), from)};
  for (size_t i = 0; i < starts.size(); ++i) {
    const int axis = normalize_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], from.rank());
    const Cut taken = cut(from[axis], starts[i], ends[i], steps.empty() ? 1 : steps[i]);
    const int64_t step = taken.count == 1 ? 1 : taken.step, apart = std::abs(step);
    if (step < 0) g = backwards(g, axis);
    if (apart > 1) g = spread(g, axis, apart);
    const int64_t first = step < 0 ? taken.start + (taken.count - 1) * step : taken.start;
    pads[static_cast<size_t>(axis)] = first;
    pads[static_cast<size_t>(axis + from.rank())] = from[axis] - first - taken.count * apart;
  }
  return {c.b.add("Pad", {g, c.b.ints(pads)})};
}

constexpr Kernel kCuda[] = {cuda::kStrided<parts>};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};
constexpr AttrSpec kOldAttrs[] = {
    {"starts", AttrType::integers, true}, {"ends", AttrType::integers, true}, {"axes", AttrType::integers}};

const OpDef kOps[] = {
    {.name = "Slice",
     .doc = "A range of elements along some axes.",
     .since = 10,
     .inputs = {3, 5},
     .outputs = {1, 1},
     .traits = {.picks = true, .finite = true},
     .infer = infer,
     .axes = axes_of_slice,
     .cpu = kCpu,
     .cuda = kCuda,
     .grad = gradient,
     .cost = no_flops,
     .cases = cases},
    {.name = "Slice",
     .doc = "The ranges as attributes.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kOldAttrs,
     .expand = expand_attributes},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::slice_ops

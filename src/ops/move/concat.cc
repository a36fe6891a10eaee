// Concat and Split: join and split tensors along one axis.
#include <algorithm>

#include "base/error.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::concat_ops {
namespace {

// --- Concat
void infer_concat(InferContext& c) {
  const int axis = normalize_axis(c.attrs.integer("axis"), c.rank(0));
  int64_t size = 0;
  for (int i = 0; i < c.input_count(); ++i) {
    expect_same_dtype(c, 0, i);
    const Shape &first = c.shape(0), &shape = c.shape(i);
    bool fits = shape.rank() == first.rank();
    for (int d = 0; fits && d < first.rank(); ++d) fits = d == axis || shape[d] == first[d];
    if (!fits)
      fail("input {} has shape {}, input 0 {}: they may differ at axis {} only", i, shape.str(), first.str(), axis);
    if (__builtin_add_overflow(size, shape[axis], &size)) fail("the sizes along axis {} are too large", axis);
  }
  c.output(0, c.dtype(0), c.shape(0).with(axis, size));
}

void run_concat(const Call& c) {
  const Shape& out = c.outputs[0].shape;
  const int axis = normalize_axis(c.attrs().integer("axis"), out.rank());
  const int64_t outer = out.elements(0, axis), row = out.elements(axis, out.rank());
  int64_t start = 0;
  for (const ConstView& in : c.inputs) {
    const int64_t part = in.shape.elements(axis, out.rank());
    CopyLoops loops;
    loops.add(outer, part, row);
    loops.add(part, 1, 1);
    copy_strided(in.dtype, loops, in.data, 0, c.outputs[0].data, start);
    start += part;
  }
}

std::vector<ValueId> expand_concat_default(ExpandContext& e) {
  return {e.b.add("Concat", e.node.inputs, {{"axis", e.node.attrs.integer("axis", 1)}})};
}

std::vector<OpCase> concat_cases() {
  const auto axis = [](int64_t at) { return Attributes{{"axis", at}}; };
  return {{"rows", {CaseInput::of({2, 5}), CaseInput::of({3, 5})}, axis(0)},
          {"columns", {CaseInput::of({3, 5}), CaseInput::of({3, 1}), CaseInput::of({3, 4})}, axis(-1)},
          {"channels", {CaseInput::of({2, 3, 7}, DType::f16), CaseInput::of({2, 4, 7}, DType::f16)}, axis(1)},
          {"empty_part", {CaseInput::of({2, 0}), CaseInput::of({2, 3})}, axis(1)},
          {"packed", {CaseInput::range({3, 3}, 0, 15, DType::u4), CaseInput::range({3, 2}, 0, 15, DType::u4)}, axis(1)},
          {"many", std::vector<CaseInput>(30, CaseInput::of({3, 2})), axis(1)},
          {"one", {CaseInput::of({4})}, axis(0)}};
}

// --- Split
// The sizes of the parts: as given, or equal with a smaller last one.
void infer_split(InferContext& c) {
  const Shape& in = c.shape(0);
  const int axis = normalize_axis(c.attrs.integer("axis", 0), in.rank()), parts = c.output_count();
  std::vector<int64_t> sizes;
  if (c.has(1)) {
    if (c.attrs.has("num_outputs")) fail("both split and num_outputs are given");
    sizes = list_operand(c, 1, kMany);
    if (static_cast<int>(sizes.size()) != parts) fail("{} sizes given for {} outputs", sizes.size(), parts);
    int64_t left = in[axis];
    for (const int64_t size : sizes) {
      if (size < 0 || size > left) fail("the parts do not add up to the {} along axis {}", in[axis], axis);
      left -= size;
    }
    if (left != 0) fail("the parts leave {} of the {} along axis {}", left, in[axis], axis);
  } else {
    const int64_t asked = c.attrs.integer("num_outputs", parts);
    if (asked != parts) fail("num_outputs is {}, the node has {} outputs", asked, parts);
    const int64_t size = (in[axis] + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(in[axis] - i * size, 0, size));
  }
  for (int i = 0; i < parts; ++i) c.output(i, c.dtype(0), in.with(axis, sizes[static_cast<size_t>(i)]));
}

void run_split(const Call& c) {
  const Shape& in = c.inputs[0].shape;
  const int axis = normalize_axis(c.attrs().integer("axis", 0), in.rank());
  const int64_t outer = in.elements(0, axis), row = in.elements(axis, in.rank());
  int64_t start = 0;
  for (const View& out : c.outputs) {
    const int64_t part = out.shape.elements(axis, in.rank());
    CopyLoops loops;
    loops.add(outer, row, part);
    loops.add(part, 1, 1);
    copy_strided(out.dtype, loops, c.inputs[0].data, start, out.data, 0);
    start += part;
  }
}

std::vector<ValueId> expand_split_attribute(ExpandContext& e) {
  const Attributes axis{{"axis", e.node.attrs.integer("axis", 0)}};
  const int parts = static_cast<int>(e.node.outputs.size());
  if (!e.node.attrs.has("split")) return e.b.add_many("Split", {e.in(0)}, axis, parts);
  return e.b.add_many("Split", {e.in(0), e.b.ints(e.node.attrs.integers("split"))}, axis, parts);
}

std::vector<OpCase> split_cases() {
  return {{"equal", {CaseInput::of({6, 5})}, {}, 3},
          {"rest", {CaseInput::of({2, 7, 3})}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}}, 3},
          {"sizes", {CaseInput::of({3, 9}), CaseInput::value(Tensor::ints({2, 0, 7}))}, {{"axis", int64_t{-1}}}, 3},
          {"fewer_than_parts", {CaseInput::of({5})}, {{"num_outputs", int64_t{4}}}, 4},
          {"packed", {CaseInput::range({3, 4}, 0, 15, DType::u4)}, {{"axis", int64_t{1}}}, 2}};
}

AxisSource axes_of_concat(const Problem& p, int, int axis, size_t) {
  const int joined = normalize_axis(p.attrs().integer("axis"), p.outputs[0].shape.rank());
  return axis == joined ? AxisSource{} : same_axis(axis);
}

cuda::CopyParts parts_of_concat(const Problem& p) {
  const Shape& out = p.outputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis"), out.rank());
  const int64_t outer = out.elements(0, axis), row = out.elements(axis, out.rank());
  cuda::CopyParts all;
  int64_t start = 0;
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    const int64_t part = p.inputs[i].shape.elements(axis, out.rank());
    all.parts.push_back({i, 0, 0, start, {outer, part}, {part, 1}, {row, 1}});
    start += part;
  }
  return all;
}

cuda::CopyParts parts_of_split(const Problem& p) {
  const Shape& in = p.inputs[0].shape;
  const int axis = normalize_axis(p.attrs().integer("axis", 0), in.rank());
  const int64_t outer = in.elements(0, axis), row = in.elements(axis, in.rank());
  cuda::CopyParts all;
  int64_t start = 0;
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const int64_t part = p.outputs[i].shape.elements(axis, in.rank());
    all.parts.push_back({0, i, start, 0, {outer, part}, {row, 1}, {part, 1}});
    start += part;
  }
  return all;
}

constexpr Kernel kConcatCuda[] = {cuda::kStrided<parts_of_concat>};
constexpr Kernel kSplitCuda[] = {cuda::kStrided<parts_of_split>};
constexpr Kernel kConcat[] = {{.name = "reference", .run = run_concat}};
constexpr Kernel kSplit[] = {{.name = "reference", .run = run_split}};
constexpr AttrSpec kConcatAttrs[] = {{"axis", AttrType::integer, true}};
constexpr AttrSpec kOldConcatAttrs[] = {{"axis", AttrType::integer}};
constexpr AttrSpec kSplitAttrs[] = {{"axis", AttrType::integer}, {"num_outputs", AttrType::integer}};
constexpr AttrSpec kOldSplitAttrs[] = {{"axis", AttrType::integer}, {"split", AttrType::integers}};

// --- gradients: each is the other's
std::vector<ValueId> gradient_of_concat(GradContext& c) {
  const int64_t axis = c.node.attrs.integer("axis");
  std::vector<int64_t> sizes;
  for (const ValueId input : c.node.inputs) {
    const Shape& shape = c.b.shape(input);
    sizes.push_back(shape[normalize_axis(axis, shape.rank())]);
  }
  return c.b.add_many("Split", {c.out_grads[0], c.b.ints(sizes)}, {{"axis", axis}}, static_cast<int>(sizes.size()));
}
std::vector<ValueId> gradient_of_split(GradContext& c) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.node.outputs.size(); ++i) {
    const ValueId output = c.node.outputs[i];
    parts.push_back(c.out_grads[i].present() ? c.out_grads[i]
                                             : c.b.constant(Tensor::zeros(c.b.dtype(output), c.b.shape(output))));
  }
  return {c.b.add("Concat", std::move(parts), {{"axis", c.node.attrs.integer("axis", 0)}})};
}

const OpDef kOps[] = {
    {.name = "Concat",
     .doc = "Tensors joined along an axis.",
     .since = 4,
     .inputs = {1, kMany},
     .outputs = {1, 1},
     .attributes = kConcatAttrs,
     .traits = {.picks = true, .finite = true},
     .infer = infer_concat,
     .axes = axes_of_concat,
     .cpu = kConcat,
     .cuda = kConcatCuda,
     .grad = gradient_of_concat,
     .cost = no_flops,
     .cases = concat_cases},
    {.name = "Concat",
     .doc = "Axis 1 unless given.",
     .since = 1,
     .inputs = {1, kMany},
     .outputs = {1, 1},
     .attributes = kOldConcatAttrs,
     .expand = expand_concat_default},
    {.name = "Split",
     .doc = "A tensor cut along an axis.",
     .since = 13,
     .inputs = {1, 2},
     .outputs = {1, kMany},
     .attributes = kSplitAttrs,
     .traits = {.picks = true, .finite = true},
     .infer = infer_split,
     .axes = axes_along_attribute<0>,
     .cpu = kSplit,
     .cuda = kSplitCuda,
     .grad = gradient_of_split,
     .cost = no_flops,
     .cases = split_cases},
    {.name = "Split",
     .doc = "The sizes as an attribute.",
     .since = 2,
     .inputs = {1, 1},
     .outputs = {1, kMany},
     .attributes = kOldSplitAttrs,
     .expand = expand_split_attribute},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::concat_ops

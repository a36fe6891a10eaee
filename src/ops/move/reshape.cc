// Ops that give the same bytes another shape: Reshape, Flatten, Squeeze, Unsqueeze. All of them are views.
#include "base/error.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::reshape_ops {
namespace {

// --- Reshape
// 0 copies the input's dimension (unless `allowzero`), -1 is computed from the other dimensions.
Shape reshaped(const Shape& in, std::vector<int64_t> dims, bool allow_zero) {
  int rest = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int at = static_cast<int>(i);
    if (dims[i] == -1) {
      if (rest >= 0) fail("shape has two dimensions of -1");
      rest = at;
      dims[i] = 1;
    } else if (dims[i] == 0 && !allow_zero) {
      if (at >= in.rank()) fail("shape copies dimension {}, the input has rank {}", at, in.rank());
      dims[i] = in[at];
    }
  }
  Shape out{std::span<const int64_t>(dims)};
  if (rest >= 0) {
    const int64_t others = out.elements();
    if (others == 0 || in.elements() % others != 0) {
      fail("{} elements of {} do not fit {} with one dimension free", in.elements(), in.str(), out.str());
    }
    out = out.with(rest, in.elements() / others);
  }
  if (out.elements() != in.elements()) fail("cannot reshape {} to {}", in.str(), out.str());
  return out;
}

void infer_reshape(InferContext& c) {
  c.output(0, c.dtype(0), reshaped(c.shape(0), list_operand(c, 1), c.attrs.integer("allowzero", 0) != 0));
}

std::vector<ValueId> expand_reshape_attribute(ExpandContext& e) {
  return {e.b.add("Reshape", {e.in(0), e.b.ints(e.node.attrs.integers("shape"))})};
}

std::vector<OpCase> reshape_cases() {
  return {{"rest", {CaseInput::of({2, 3, 5}), CaseInput::value(Tensor::ints({5, -1}))}, {}},
          {"copies_dims", {CaseInput::of({2, 3, 5}), CaseInput::value(Tensor::ints({0, 0, 1, 5}))}, {}},
          {"zero", {CaseInput::of({0, 3}), CaseInput::value(Tensor::ints({3, 0}))}, {{"allowzero", int64_t{1}}}},
          {"to_scalar", {CaseInput::of({1, 1}), CaseInput::value(Tensor::ints({}))}, {}},
          {"packed", {CaseInput::range({3, 4}, 0, 15, DType::u4), CaseInput::value(Tensor::ints({-1}))}, {}}};
}

// --- Flatten
void infer_flatten(InferContext& c) {
  const Shape& in = c.shape(0);
  const int64_t attr = c.attrs.integer("axis", 1);
  const int axis = attr == in.rank() ? in.rank() : normalize_axis(attr, in.rank());
  c.output(0, c.dtype(0), Shape{in.elements(0, axis), in.elements(axis, in.rank())});
}

std::vector<OpCase> flatten_cases() {
  return {{"default", {CaseInput::of({2, 3, 5})}, {}},
          {"all", {CaseInput::of({2, 3, 5})}, {{"axis", int64_t{0}}}},
          {"end", {CaseInput::of({2, 3, 5})}, {{"axis", int64_t{3}}}},
          {"negative", {CaseInput::of({2, 3, 5})}, {{"axis", int64_t{-1}}}}};
}

// --- Squeeze and Unsqueeze
void infer_squeeze(InferContext& c) {
  const Shape& in = c.shape(0);
  std::array<bool, Shape::kMaxRank> drop{};
  if (c.has(1)) {
    for (const int axis : distinct_axes(list_operand(c, 1), in.rank())) {
      if (in[axis] != 1) fail("dimension {} of {} is not 1", axis, in.str());
      drop[static_cast<size_t>(axis)] = true;
    }
  } else {
    for (int i = 0; i < in.rank(); ++i) drop[static_cast<size_t>(i)] = in[i] == 1;
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < in.rank(); ++i) {
    if (!drop[static_cast<size_t>(i)]) dims.push_back(in[i]);
  }
  c.output(0, c.dtype(0), Shape(std::span<const int64_t>(dims)));
}

void infer_unsqueeze(InferContext& c) {
  const Shape& in = c.shape(0);
  const std::vector<int64_t> axes = list_operand(c, 1);
  const int rank = in.rank() + static_cast<int>(axes.size());
  if (rank > Shape::kMaxRank) fail("rank {} is above the {} supported", rank, Shape::kMaxRank);
  std::vector<int64_t> dims(static_cast<size_t>(rank), -1);
  for (const int axis : distinct_axes(axes, rank)) dims[static_cast<size_t>(axis)] = 1;
  int from = 0;
  for (int64_t& dim : dims) {
    if (dim < 0) dim = in[from++];
  }
  c.output(0, c.dtype(0), Shape(std::span<const int64_t>(dims)));
}

std::vector<ValueId> expand_squeeze_attribute(ExpandContext& e) {
  if (!e.node.attrs.has("axes")) return {e.b.add("Squeeze", {e.in(0)})};
  return {e.b.add("Squeeze", {e.in(0), e.b.ints(e.node.attrs.integers("axes"))})};
}
std::vector<ValueId> expand_unsqueeze_attribute(ExpandContext& e) {
  return {e.b.add("Unsqueeze", {e.in(0), e.b.ints(e.node.attrs.integers("axes"))})};
}

std::vector<OpCase> squeeze_cases() {
  return {{"all", {CaseInput::of({1, 3, 1, 5})}, {}},
          {"some", {CaseInput::of({1, 3, 1, 5}), CaseInput::value(Tensor::ints({-2}))}, {}},
          {"i64", {CaseInput::range({1}, -9, 9, DType::i64)}, {}}};
}
std::vector<OpCase> unsqueeze_cases() {
  return {{"ends", {CaseInput::of({3, 5}), CaseInput::value(Tensor::ints({-1, 0}))}, {}},
          {"middle", {CaseInput::of({3, 5}), CaseInput::value(Tensor::ints({1, 2}))}, {}},
          {"scalar", {CaseInput::of({}), CaseInput::value(Tensor::ints({0}))}, {}}};
}

std::vector<ValueId> gradient(GradContext& c) {
  return {
      c.b.add("Reshape", {c.out_grads[0], c.b.ints(c.b.shape(c.node.inputs[0]).dims())}, {{"allowzero", int64_t{1}}})};
}

constexpr Kernel kCpu[] = {{.name = "reference", .run = run_view}};
constexpr AttrSpec kReshapeAttrs[] = {{"allowzero", AttrType::integer}};
constexpr AttrSpec kOldReshapeAttrs[] = {{"shape", AttrType::integers}, {"consumed_inputs", AttrType::integers}};
constexpr AttrSpec kFlattenAttrs[] = {{"axis", AttrType::integer}};
constexpr AttrSpec kAxesAttr[] = {{"axes", AttrType::integers}};
constexpr AttrSpec kAxesNeeded[] = {{"axes", AttrType::integers, true}};

const OpDef kOps[] = {
    {.name = "Reshape",
     .doc = "The same elements under another shape.",
     .since = 5,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attributes = kReshapeAttrs,
     .traits = {.view = true, .picks = true},
     .infer = infer_reshape,
     .cpu = kCpu,
     .cuda = cuda::kView,
     .grad = gradient,
     .cost = no_flops,
     .cases = reshape_cases},
    {.name = "Reshape",
     .doc = "The shape as an attribute.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kOldReshapeAttrs,
     .traits = {.view = true, .picks = true},
     .expand = expand_reshape_attribute},
    {.name = "Flatten",
     .doc = "A matrix: dimensions before an axis, and from it on.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kFlattenAttrs,
     .traits = {.view = true, .picks = true},
     .infer = infer_flatten,
     .cpu = kCpu,
     .cuda = cuda::kView,
     .grad = gradient,
     .cost = no_flops,
     .cases = flatten_cases},
    {.name = "Squeeze",
     .doc = "Drops dimensions of size 1.",
     .since = 13,
     .inputs = {1, 2},
     .outputs = {1, 1},
     .traits = {.view = true, .picks = true},
     .infer = infer_squeeze,
     .cpu = kCpu,
     .cuda = cuda::kView,
     .grad = gradient,
     .cost = no_flops,
     .cases = squeeze_cases},
    {.name = "Squeeze",
     .doc = "The axes as an attribute.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAxesAttr,
     .traits = {.view = true, .picks = true},
     .expand = expand_squeeze_attribute},
    {.name = "Unsqueeze",
     .doc = "Inserts dimensions of size 1.",
     .since = 13,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .traits = {.view = true, .picks = true},
     .infer = infer_unsqueeze,
     .cpu = kCpu,
     .cuda = cuda::kView,
     .grad = gradient,
     .cost = no_flops,
     .cases = unsqueeze_cases},
    {.name = "Unsqueeze",
     .doc = "The axes as an attribute.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAxesNeeded,
     .traits = {.view = true, .picks = true},
     .expand = expand_unsqueeze_attribute},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::reshape_ops

// Expand and Tile: repeat a tensor.
#include "base/error.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/formula.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::expand_ops {
namespace {

// --- Expand: broadcasts data and target shape to each other
void infer_expand(InferContext& c) {
  const std::vector<int64_t> dims = list_operand(c, 1);
  c.output(0, c.dtype(0), broadcast(c.shape(0), Shape(std::span<const int64_t>(dims))));
}

void run_expand(const Call& c) {
  const Shape &in = c.inputs[0].shape, &out = c.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  CopyLoops loops;
  for (int i = 0; i < out.rank(); ++i) {
    const int j = i - (out.rank() - in.rank());
    loops.add(out[i], j < 0 || in[j] == 1 ? 0 : from[static_cast<size_t>(j)], to[static_cast<size_t>(i)]);
  }
  copy_strided(c.inputs[0].dtype, loops, c.inputs[0].data, 0, c.outputs[0].data, 0);
}

std::vector<OpCase> expand_cases() {
  const auto to = [](std::initializer_list<int64_t> v) { return CaseInput::value(Tensor::ints(v)); };
  return {{"rows", {CaseInput::of({1, 5}), to({3, 5})}, {}},
          {"columns", {CaseInput::of({7, 1}), to({7, 9})}, {}},
          {"both_ways", {CaseInput::of({2, 1, 3}), to({4, 1})}, {}},
          {"more_axes", {CaseInput::of({3}, DType::f16), to({2, 5, 3})}, {}},
          {"scalar", {CaseInput::range({}, 0, 1, DType::boolean), to({9})}, {}},
          {"empty", {CaseInput::of({1, 3}), to({0, 3})}, {}}};
}

// --- Tile
void infer_tile(InferContext& c) {
  Shape out = c.shape(0);
  const std::vector<int64_t> repeats = list_operand(c, 1);
  if (static_cast<int>(repeats.size()) != out.rank()) fail("{} repeats given for rank {}", repeats.size(), out.rank());
  std::vector<int64_t> dims(repeats.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (repeats[i] < 0) fail("{} repeats of axis {}", repeats[i], i);
    if (__builtin_mul_overflow(out[static_cast<int>(i)], repeats[i], &dims[i]))
      fail("{} repeats are too many", repeats[i]);
  }
  c.output(0, c.dtype(0), Shape(std::span<const int64_t>(dims)));
}

void run_tile(const Call& c) {
  const Shape &in = c.inputs[0].shape, &out = c.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  CopyLoops loops;
  if (out.elements() == 0) return;
  for (int i = 0; i < out.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    loops.add(out[i] / in[i], 0, in[i] * to[at]);
    loops.add(in[i], from[at], to[at]);
  }
  copy_strided(c.inputs[0].dtype, loops, c.inputs[0].data, 0, c.outputs[0].data, 0);
}

std::vector<OpCase> tile_cases() {
  const auto by = [](std::initializer_list<int64_t> v) { return CaseInput::value(Tensor::ints(v)); };
  return {{"both", {CaseInput::of({3, 5}), by({2, 3})}, {}},
          {"rows", {CaseInput::of({1, 7}), by({4, 1})}, {}},
          {"four", {CaseInput::of({2, 3, 1, 5}), by({1, 2, 3, 2})}, {}},
          {"none", {CaseInput::of({2, 3}), by({0, 1})}, {}},
          {"packed", {CaseInput::range({3}, 0, 15, DType::u4), by({3})}, {}}};
}

AxisSource axes_of_expand(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  const auto target = constant_list(p, 1);
  const Shape &x = p.inputs[0].shape, &y = p.outputs[0].shape;
  if (!target) return {};
  const int own = axis - (y.rank() - x.rank()), listed = axis - (y.rank() - static_cast<int>(target->size()));
  const bool fixed = listed >= 0 && (*target)[static_cast<size_t>(listed)] != 1;
  return fixed || own < 0 ? AxisSource{} : same_axis(own);  // not if the target sets the size
}

AxisSource axes_of_tile(const Problem& p, int, int axis, size_t input) {
  if (input > 0) return whole_input();
  return p.inputs[0].shape[axis] == p.outputs[0].shape[axis] ? same_axis(axis) : AxisSource{};
}

cuda::CopyParts parts_of_expand(const Problem& p) {
  const Shape &in = p.inputs[0].shape, &out = p.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  cuda::CopyPart part;
  for (int i = 0; i < out.rank(); ++i) {
    const int j = i - (out.rank() - in.rank());
    part.sizes.push_back(out[i]);
    part.from_strides.push_back(j < 0 || in[j] == 1 ? 0 : from[static_cast<size_t>(j)]);
    part.to_strides.push_back(to[static_cast<size_t>(i)]);
  }
  return {{part}};
}

cuda::CopyParts parts_of_tile(const Problem& p) {
  const Shape &in = p.inputs[0].shape, &out = p.outputs[0].shape;
  if (out.elements() == 0) return {{}, "empty"};
  const auto from = in.strides(), to = out.strides();
  cuda::CopyPart part;
  for (int i = 0; i < out.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    part.sizes.insert(part.sizes.end(), {out[i] / in[i], in[i]});
    part.from_strides.insert(part.from_strides.end(), {0, from[at]});
    part.to_strides.insert(part.to_strides.end(), {in[i] * to[at], to[at]});
  }
  return {{part}};
}

// The copies, each along an axis of its own, added up.
std::vector<ValueId> gradient_of_tile(GradContext& c) {
  const Shape in = c.b.shape(c.in(0));
  const Term g(c.b, c.out_grads[0]);
  std::vector<int64_t> apart, copies;
  for (int axis = 0; axis < in.rank(); ++axis) {
    if (g.shape()[axis] != in[axis]) {
      copies.push_back(static_cast<int64_t>(apart.size()));
      apart.push_back(g.shape()[axis] / in[axis]);
    }
    apart.push_back(in[axis]);
  }
  return {g.as(Shape(apart)).over("ReduceSum", copies).as(in)};
}

constexpr Kernel kExpandCuda[] = {cuda::kStrided<parts_of_expand>};
constexpr Kernel kTileCuda[] = {cuda::kStrided<parts_of_tile>};
constexpr Kernel kExpand[] = {{.name = "reference", .run = run_expand}};
constexpr Kernel kTile[] = {{.name = "reference", .run = run_tile}};

const OpDef kOps[] = {
    {.name = "Expand",
     .doc = "Broadcast to a shape given as data.",
     .since = 8,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .traits = {.picks = true, .finite = true},
     .infer = infer_expand,
     .axes = axes_of_expand,
     .cpu = kExpand,
     .cuda = kExpandCuda,
     .grad = [](GradContext& c) { return std::vector<ValueId>{c.out_grads[0]}; },
     .cost = no_flops,
     .cases = expand_cases},
    {.name = "Tile",
     .doc = "Repeated along each axis.",
     .since = 6,
     .inputs = {2, 2},
     .outputs = {1, 1},
     .traits = {.picks = true, .finite = true},
     .infer = infer_tile,
     .axes = axes_of_tile,
     .cpu = kTile,
     .cuda = kTileCuda,
     .grad = gradient_of_tile,
     .cost = no_flops,
     .cases = tile_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::expand_ops

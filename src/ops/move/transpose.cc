// Transpose: permutes axes. The work is done by cpu/move/copy.cc, whose tiles handle changes between NCHW and NHWC.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/cuda/copy_candidates.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::transpose_ops {
namespace {

std::vector<int64_t> permutation(const Attributes& attrs, int rank) {
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) reversed[static_cast<size_t>(i)] = rank - 1 - i;
  return attrs.integers("perm", std::move(reversed));
}

void infer(InferContext& c) {
  const Shape& in = c.shape(0);
  const std::vector<int64_t> perm = permutation(c.attrs, in.rank());
  if (static_cast<int>(perm.size()) != in.rank())
    fail("perm has {} axes, the input has rank {}", perm.size(), in.rank());
  Shape out = in;
  const std::vector<int> axes = distinct_axes(perm, in.rank());
  for (int i = 0; i < in.rank(); ++i) out.set(i, in[axes[static_cast<size_t>(i)]]);
  c.output(0, c.dtype(0), out);
}

struct State final : KernelState {
  CopyLoops loops;
};

std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  const Shape &in = p.inputs[0].shape, &out = p.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  const std::vector<int64_t> perm = permutation(p.attrs(), in.rank());
  for (int i = 0; i < in.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    state->loops.add(out[i], from[static_cast<size_t>(normalize_axis(perm[at], in.rank()))], to[at]);
  }
  return state;
}

void run(const Call& c) {
  copy_strided(c.inputs[0].dtype, c.as<State>().loops, c.inputs[0].data, 0, c.outputs[0].data, 0);
}

std::vector<OpCase> cases() {
  const auto perm = [](std::vector<int64_t> p) { return Attributes{{"perm", std::move(p)}}; };
  return {{"reversed", {CaseInput::of({3, 5, 7})}, {}},
          {"to_channels_last", {CaseInput::of({2, 19, 5, 7})}, perm({0, 2, 3, 1})},
          {"to_channels_first", {CaseInput::of({2, 5, 7, 19}, DType::f16)}, perm({0, 3, 1, 2})},
          {"heads", {CaseInput::of({2, 9, 4, 8})}, perm({0, 2, 1, 3})},
          {"bytes", {CaseInput::range({37, 41}, -9, 9, DType::i8)}, perm({1, 0})},
          {"camera", {CaseInput::range({1, 24, 5, 27}, 0, 255, DType::u8)}, perm({0, 2, 3, 1})},
          {"camera_of_six", {CaseInput::range({2, 6, 13, 27}, 0, 255, DType::u8)}, perm({0, 2, 3, 1})},
          {"two_cameras", {CaseInput::range({2, 12, 13, 27}, 0, 255, DType::u8)}, perm({0, 2, 3, 1})},
          {"colours", {CaseInput::range({1, 3, 19, 41}, 0, 255, DType::u8)}, perm({0, 2, 3, 1})},
          {"halves_of_four", {CaseInput::of({1, 4, 9, 37}, DType::f16)}, perm({0, 2, 3, 1})},
          {"narrow", {CaseInput::of({70, 3})}, perm({1, 0})},
          {"packed", {CaseInput::range({3, 5}, -8, 7, DType::i4)}, perm({-1, -2})},
          {"empty", {CaseInput::of({3, 0, 2})}, {}},
          {"scalar", {CaseInput::of({})}, {}}};
}

AxisSource axes(const Problem& p, int, int axis, size_t) {
  const std::vector<int64_t> perm = p.attrs().integers("perm");
  if (perm.empty()) return same_axis(p.inputs[0].shape.rank() - 1 - axis);
  return same_axis(normalize_axis(perm[static_cast<size_t>(axis)], p.inputs[0].shape.rank()));
}

std::vector<int> axes_in_order(const Problem& p) {
  std::vector<int> out;
  const int rank = p.inputs[0].shape.rank();
  for (const int64_t axis : permutation(p.attrs(), rank)) out.push_back(normalize_axis(axis, rank));
  return out;
}

cuda::CopyParts parts(const Problem& p) {
  const Shape &in = p.inputs[0].shape, &out = p.outputs[0].shape;
  const auto from = in.strides(), to = out.strides();
  cuda::CopyPart part;
  for (const int axis : axes_in_order(p)) {
    part.to_strides.push_back(to[part.sizes.size()]);
    part.sizes.push_back(in[axis]);
    part.from_strides.push_back(from[static_cast<size_t>(axis)]);
  }
  return {{part}};
}

constexpr Kernel kCuda[] = {{.name = "tiles",
                             .accepts = [](const Problem& p) { return cuda::tiles_accept(p, axes_in_order(p)); },
                             .prepare = [](const Problem& p) { return cuda::tiles_prepare(p, axes_in_order(p)); },
                             .run = cuda::tiles_run},
                            cuda::kStrided<parts>};
std::vector<ValueId> gradient(GradContext& c) {
  const int rank = c.b.shape(c.node.inputs[0]).rank();
  std::vector<int64_t> perm = c.node.attrs.integers("perm"), back(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int64_t from = perm.empty() ? rank - 1 - i : perm[static_cast<size_t>(i)];
    back[static_cast<size_t>(normalize_axis(from, rank))] = i;
  }
  return {c.b.add("Transpose", {c.out_grads[0]}, {{"perm", back}})};
}

constexpr Kernel kCpu[] = {{.name = "reference", .prepare = prepare, .run = run}};
constexpr AttrSpec kAttrs[] = {{"perm", AttrType::integers}};

const OpDef kOps[] = {{
    .name = "Transpose",
    .doc = "Axes in another order.",
    .since = 1,
    .inputs = {1, 1},
    .outputs = {1, 1},
    .attributes = kAttrs,
    .traits = {.picks = true, .finite = true},
    .infer = infer,
    .axes = axes,
    .cpu = kCpu,
    .cuda = kCuda,
    .grad = gradient,
    .cost = no_flops,
    .cases = cases,
}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::transpose_ops

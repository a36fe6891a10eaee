// DepthToSpace and SpaceToDepth: move blocks of pixels to channels and back. Both are one strided copy with six loops.
#include "base/error.h"
#include "ops/axes.h"
#include "ops/cpu/move/copy.h"
#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::depth_to_space_ops {
namespace {

// CRD: the elements of a channel's block are adjacent; DCR: the channels of a block element are.
bool channel_first(const Attributes& attrs) {
  const std::string mode = attrs.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") fail("mode is \"{}\", expected DCR or CRD", mode);
  return mode == "CRD";
}

int64_t block_of(const InferContext& c) {
  if (c.rank(0) != 4) fail("input has shape {}, expected [N, C, H, W]", c.shape(0).str());
  channel_first(c.attrs);
  const int64_t block = c.attrs.integer("blocksize");
  if (block < 1 || block > (1 << 18)) fail("blocksize is {}", block);
  return block;
}

void infer_to_space(InferContext& c) {
  const int64_t b = block_of(c);
  const Shape& in = c.shape(0);
  if (in[1] % (b * b) != 0) fail("{} channels are no multiple of blocksize {} squared", in[1], b);
  c.output(0, c.dtype(0), Shape{in[0], in[1] / (b * b), in[2] * b, in[3] * b});
}

void infer_to_depth(InferContext& c) {
  const int64_t b = block_of(c);
  const Shape& in = c.shape(0);
  if (in[2] % b != 0 || in[3] % b != 0) fail("{}x{} pixels are no multiple of blocksize {}", in[2], in[3], b);
  c.output(0, c.dtype(0), Shape{in[0], in[1] * b * b, in[2] / b, in[3] / b});
}

struct State final : KernelState {
  CopyLoops loops;
};

template <bool kToSpace>
std::unique_ptr<KernelState> prepare(const Problem& p) {
  auto state = std::make_unique<State>();
  const int64_t b = p.attrs().integer("blocksize");
  const bool crd = channel_first(p.attrs());
  // Sizes of the deep tensor [N, C b b, H, W]; the wide tensor is [N, C, H b, W b].
  const Shape& deep = kToSpace ? p.inputs[0].shape : p.outputs[0].shape;
  const int64_t channels = deep[1] / (b * b), height = deep[2], width = deep[3], plane = height * width;
  const auto add = [&](int64_t count, int64_t in_deep, int64_t in_wide) {
    state->loops.add(count, kToSpace ? in_deep : in_wide, kToSpace ? in_wide : in_deep);
  };
  add(deep[0], deep[1] * plane, deep[1] * plane);
  add(channels, crd ? b * b * plane : plane, plane * b * b);
  add(b, (crd ? b : b * channels) * plane, width * b);  // rows of a block
  add(b, (crd ? 1 : channels) * plane, 1);              // columns of a block
  add(height, width, width * b * b);
  add(width, 1, b);
  return state;
}

void run(const Call& c) {
  copy_strided(c.inputs[0].dtype, c.as<State>().loops, c.inputs[0].data, 0, c.outputs[0].data, 0);
}

Attributes blocks(int64_t size, const char* mode) { return {{"blocksize", size}, {"mode", std::string(mode)}}; }
std::vector<OpCase> to_space_cases() {
  return {{"dcr", {CaseInput::of({2, 12, 3, 5})}, blocks(2, "DCR")},
          {"crd", {CaseInput::of({1, 18, 4, 3})}, blocks(3, "CRD")},
          {"f16", {CaseInput::of({1, 8, 2, 7}, DType::f16)}, blocks(2, "CRD")},
          {"one", {CaseInput::of({1, 3, 4, 5})}, blocks(1, "DCR")}};
}
std::vector<OpCase> to_depth_cases() {
  return {{"dcr", {CaseInput::of({2, 3, 4, 10})}, blocks(2, "DCR")},
          {"crd", {CaseInput::of({1, 2, 9, 6})}, blocks(3, "CRD")},
          {"bytes", {CaseInput::range({1, 1, 4, 6}, 0, 255, DType::u8)}, blocks(2, "DCR")}};
}

constexpr Kernel kToSpaceKernel[] = {{.name = "reference", .prepare = prepare<true>, .run = run}};
constexpr Kernel kToDepthKernel[] = {{.name = "reference", .prepare = prepare<false>, .run = run}};
constexpr AttrSpec kAttrs[] = {{"blocksize", AttrType::integer, true}, {"mode", AttrType::text}};

const OpDef kOps[] = {
    {.name = "DepthToSpace",
     .doc = "Channels laid out as blocks of pixels.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.picks = true, .finite = true},
     .infer = infer_to_space,
     .axes = axes_of_entries,
     .cpu = kToSpaceKernel,
     .grad =
         [](GradContext& c) { return std::vector<ValueId>{c.b.add("SpaceToDepth", {c.out_grads[0]}, c.node.attrs)}; },
     .cost = no_flops,
     .cases = to_space_cases},
    {.name = "SpaceToDepth",
     .doc = "Blocks of pixels laid out as channels.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kAttrs,
     .traits = {.picks = true, .finite = true},
     .infer = infer_to_depth,
     .axes = axes_of_entries,
     .cpu = kToDepthKernel,
     .grad =
         [](GradContext& c) { return std::vector<ValueId>{c.b.add("DepthToSpace", {c.out_grads[0]}, c.node.attrs)}; },
     .cost = no_flops,
     .cases = to_depth_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::depth_to_space_ops

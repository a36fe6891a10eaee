// Shape and Size: a tensor's dimensions as data. They read only shapes.
#include <algorithm>

#include "ops/operands.h"
#include "ops/registry.h"

namespace sparkpilot::shape_of_ops {
namespace {

struct Range {
  int first, last;
};

// `start` and `end` count from the end if negative and are clamped to the rank.
Range range(const Attributes& attrs, int rank) {
  const auto clamped = [&](int64_t at) {
    return static_cast<int>(std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank));
  };
  const int first = clamped(attrs.integer("start", 0)), last = clamped(attrs.integer("end", rank));
  return {first, std::max(first, last)};
}

void infer_shape(InferContext& c) {
  const auto [first, last] = range(c.attrs, c.rank(0));
  c.output(0, DType::i64, Shape{last - first});
}

void run_shape(const Call& c) {
  const Shape& in = c.inputs[0].shape;
  const auto [first, last] = range(c.attrs(), in.rank());
  std::copy(in.begin() + first, in.begin() + last, c.outputs[0].as<int64_t>());
}

std::vector<OpCase> shape_cases() {
  return {{"all", {CaseInput::of({2, 3, 5})}, {}},
          {"scalar", {CaseInput::of({})}, {}},
          {"part", {CaseInput::of({2, 3, 5})}, {{"start", int64_t{-2}}, {"end", int64_t{2}}}},
          {"clamped", {CaseInput::of({2, 3, 5})}, {{"start", int64_t{-9}}, {"end", int64_t{9}}}},
          {"none", {CaseInput::of({2, 3, 5})}, {{"start", int64_t{2}}, {"end", int64_t{1}}}}};
}

std::vector<OpCase> size_cases() {
  return {{"matrix", {CaseInput::of({3, 7})}, {}},
          {"scalar", {CaseInput::of({})}, {}},
          {"empty", {CaseInput::of({0, 3})}, {}}};
}

constexpr Kernel kShape[] = {{.name = "reference", .run = run_shape}};
constexpr Kernel kSize[] = {
    {.name = "reference", .run = [](const Call& c) { *c.outputs[0].as<int64_t>() = c.inputs[0].elements(); }}};
constexpr AttrSpec kShapeAttrs[] = {{"start", AttrType::integer}, {"end", AttrType::integer}};

const OpDef kOps[] = {
    {.name = "Shape",
     .doc = "The dimensions of a tensor, or some of them.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attributes = kShapeAttrs,
     .traits = {.shape_only = true},
     .infer = infer_shape,
     .cpu = kShape,
     .no_gradient = no_gradient::kNotFloats,
     .cost = no_flops,
     .cases = shape_cases},
    {.name = "Size",
     .doc = "The number of elements of a tensor.",
     .since = 1,
     .inputs = {1, 1},
     .outputs = {1, 1},
     .traits = {.shape_only = true},
     .infer = [](InferContext& c) { c.output(0, DType::i64, Shape{}); },
     .cpu = kSize,
     .no_gradient = no_gradient::kNotFloats,
     .cost = no_flops,
     .cases = size_cases},
};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::shape_of_ops

// PRelu: x, or slope * x below zero; the slope broadcasts to x.
#include "ops/cuda/elementwise_candidates.h"
#include "ops/elementwise/binary.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::prelu_ops {
namespace {

void infer(InferContext& c) {
  expect_dtype(c, 0, NumericTypes{}, "a number");
  expect_same_dtype(c, 1, 0);
  if (!(broadcast(c.shape(0), c.shape(1)) == c.shape(0))) {
    fail("slope {} does not broadcast to {}", c.shape(1).str(), c.shape(0).str());
  }
  c.output(0, c.dtype(0), c.shape(0));
}

// In versions 1 and 6 a one-dimensional slope is per channel.
Shape channel_slope(const Shape& x, const Shape& slope) {
  if (slope.rank() != 1 || slope[0] == 1 || x.rank() < 2) return slope;
  std::vector<int64_t> dims(static_cast<size_t>(x.rank() - 1), 1);
  dims[0] = slope[0];
  return Shape(dims);
}
std::vector<ValueId> expand_channels(ExpandContext& e) {
  const Shape shape = channel_slope(e.b.shape(e.in(0)), e.b.shape(e.in(1)));
  return {e.b.add("PRelu", {e.in(0), e.b.add("Reshape", {e.in(1), e.b.ints(shape.dims())})})};
}

std::vector<OpCase> cases() {
  const auto of = [](const Shape& x, const Shape& slope, DType dtype = DType::f32) {
    return std::vector<CaseInput>{CaseInput::range(x, -3, 3, dtype), CaseInput::range(slope, -3, 3, dtype)};
  };
  return {{"channels", of({2, 5, 7, 9}, {5, 1, 1}), {}},
          {"same", of({3, 100}, {3, 100}), {}},
          {"one", of({3, 100}, {1}), {}},
          {"bf16", of({2, 300}, {300}, DType::bf16), {}},
          {"f64", of({2, 3}, {2, 1}, DType::f64), {}},
          {"i32", of({2, 3}, {3}, DType::i32), {}}};
}

std::vector<ValueId> gradient(GradContext& c) {
  const Term x(c.b, c.in(0)), slope(c.b, c.in(1)), g(c.b, c.out_grads[0]);
  return {where(x < 0, slope * g, g), where(x < 0, x * g, 0)};
}

constexpr AttrSpec kOldAttrs[] = {{"consumed_inputs", AttrType::integers}};

const OpDef kOps[] = {{.name = "PRelu",
                       .doc = "x, or slope x below zero.",
                       .since = 7,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .traits = {.in_place = over_any_input, .elementwise = true, .finite = true},
                       .infer = infer,
                       .cpu = BinaryKernels<fn::ScaleNegative, NoVector{}, NumericTypes>::kKernels,
                       .cuda = cuda::kElementwise,
                       .grad = gradient,
                       .cases = cases},
                      {.name = "PRelu",
                       .doc = "The form whose slope counts channels.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .attributes = kOldAttrs,
                       .traits = {.finite = true},
                       .infer = infer_same,
                       .expand = expand_channels}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::prelu_ops

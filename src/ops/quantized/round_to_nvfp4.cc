// sparkpilot::RoundToNvfp4: what products read, rounded to NVFP4 (tensor/small_floats.h) in blocks of 16 along the last
// axis, the last of a row perhaps shorter:
//   step = E4M3(largest magnitude of the block / (6 * scale)) * scale,  y = E2M1(x / step) * step
// Values beyond 6 * 448 * scale saturate; a block that holds NaN is NaN. On a GPU of compute capability 12.x a product
// with weights in NVFP4 rounds its rows itself (read_codes() in passes/pass.h).
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/axes.h"
#include "ops/expect.h"
#include "ops/registry.h"
#include "tensor/small_floats.h"

namespace sparkpilot::round_to_nvfp4_ops {
namespace {

void run(const Call& c) {
  const float scale = *c.inputs[1].as<float>();
  const int64_t size = c.inputs[0].shape[c.inputs[0].shape.rank() - 1];
  if (size == 0) return;
  parallel_for(c.inputs[0].elements() / size, 1 + 4096 / size, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* x = c.inputs[0].as<float>() + row * size;
      float* y = c.outputs[0].as<float>() + row * size;
      for (int64_t first = 0; first < size; first += Fp4Weights::kBlock) {
        const int64_t last = std::min(first + Fp4Weights::kBlock, size);
        float largest = 0;
        for (int64_t i = first; i < last; ++i) largest = larger_magnitude(largest, x[i]);
        const float step = fp4_step(largest, scale);
        for (int64_t i = first; i < last; ++i) y[i] = round_to_fp4(x[i], step);
      }
    }
  });
}

void infer(InferContext& c) {
  expect_dtype(c, 0, TypeList<float>{}, "f32");
  expect_dtype(c, 1, TypeList<float>{}, "f32");
  if (c.shape(0).rank() == 0) fail("a number, expected at least one axis");
  if (c.shape(1).elements() != 1) fail("scale is {}, expected one number", c.shape(1).str());
  c.output(0, DType::f32, c.shape(0));
}

AxisSource axes(const Problem& p, int, int axis, size_t input) {
  return input == 0 && axis < p.outputs[0].shape.rank() - 1 ? same_axis(axis) : whole_input();
}

std::vector<OpCase> cases() {
  const auto scale = [](double s) { return CaseInput::range({}, s, s).fixed(); };
  return {{"whole_blocks", {CaseInput::of({3, 5, 32}), scale(0.0005)}},
          {"short_block", {CaseInput::of({4, 37}), scale(0.0005)}},
          {"saturates", {CaseInput::range({2, 50}, -900, 900), scale(0.1)}},
          {"zeros", {CaseInput::range({3, 16}, 0, 0), scale(1)}},
          {"one", {CaseInput::of({1, 1}), scale(0.001)}}};
}

constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "RoundToNvfp4",
                       .domain = "sparkpilot",
                       .doc = "Rounds to NVFP4 in blocks of 16 along the last axis, with a given scale of the tensor.",
                       .since = 1,
                       .inputs = {2, 2},
                       .outputs = {1, 1},
                       .infer = infer,
                       .axes = axes,
                       .cpu = kCpu,
                       .no_gradient = no_gradient::kSteps,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::round_to_nvfp4_ops

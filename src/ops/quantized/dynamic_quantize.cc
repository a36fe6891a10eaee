// DynamicQuantizeLinear: quantizes to u8 by the range of the data, widened to include 0:
//   scale = (max - min) / 255, zero point = saturate(round_to_even(-min / scale)), y as in QuantizeLinear.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ops/cpu/int8/quantize_rows.h"
#include "ops/cuda/quantize_candidates.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot::dynamic_quantize_ops {
namespace {

struct Range {
  float scale, zero;
};

// Serial, since with NaN the result would depend on the split. If all data is 0, the scale is 1.
Range range_of(const float* x, int64_t n) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  const float scale = high == low ? 1 : (high - low) / 255;
  const float zero = -low / scale;
  return {scale, zero >= 0 ? std::nearbyint(std::min(zero, 255.0f)) : 0.0f};  // infinite data makes it NaN
}

void run_reference(const Call& c) {
  const float* x = c.inputs[0].as<float>();
  const auto [scale, zero] = range_of(x, c.inputs[0].elements());
  for (int64_t i = 0; i < c.inputs[0].elements(); ++i) {
    const float v = std::nearbyint(x[i] / scale) + zero;
    c.outputs[0].as<uint8_t>()[i] = static_cast<uint8_t>(v >= 0 ? std::min(v, 255.0f) : 0.0f);
  }
  *c.outputs[1].as<float>() = scale;
  *c.outputs[2].as<uint8_t>() = static_cast<uint8_t>(zero);
}

void run_simd(const Call& c) {
  const float* x = c.inputs[0].as<float>();
  const Range range = range_of(x, c.inputs[0].elements());
  parallel_for(c.inputs[0].elements(), 16384, [&](int64_t begin, int64_t end) {
    quantize_row(x + begin, c.outputs[0].as<uint8_t>() + begin, end - begin, range.scale, range.zero);
  });
  *c.outputs[1].as<float>() = range.scale;
  *c.outputs[2].as<uint8_t>() = static_cast<uint8_t>(range.zero);
}

void infer(InferContext& c) {
  expect_dtype(c, 0, TypeList<float>{}, "f32");
  c.output(0, DType::u8, c.shape(0));
  c.output(1, DType::f32, {});
  c.output(2, DType::u8, {});
}

std::vector<OpCase> cases() {
  return {{"both_signs", {CaseInput::of({3, 5, 37})}, {}, 3},
          {"positive", {CaseInput::range({101}, 1, 9)}, {}, 3},
          {"negative", {CaseInput::range({4, 7}, -9, -1)}, {}, 3},
          {"zeros", {CaseInput::range({5}, 0, 0)}, {}, 3}};
}

constexpr Kernel kCpu[] = {{.name = "simd", .run = run_simd}, {.name = "reference", .run = run_reference}};

const OpDef kOps[] = {{.name = "DynamicQuantizeLinear",
                       .doc = "To u8 by the data's own range; also gives scale and zero point.",
                       .since = 11,
                       .inputs = {1, 1},
                       .outputs = {3, 3},
                       .infer = infer,
                       .cpu = kCpu,
                       .cuda = cuda::kDynamicQuantize,
                       .no_gradient = no_gradient::kQuantized,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::dynamic_quantize_ops

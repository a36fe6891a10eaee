#include "tensor/small_floats.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"

namespace sparkpilot {
namespace {

// A tensor as [outer, axis, inner].
struct Axes {
  int64_t outer, size, inner;
  Axes(const Shape& shape, int axis)
      : outer(shape.elements(0, axis)), size(shape[axis]), inner(shape.elements(axis + 1, shape.rank())) {}
};

float scale_of(float largest, float most) {
  const float scale = largest / most;
  return std::isnormal(scale) ? scale : 1.0f;
}

std::span<const float> finite_floats(const Tensor& weights) {
  if (weights.dtype() != DType::f32) fail_internal("weights of {}, expected f32", name(weights.dtype()));
  const std::span<const float> values = weights.data<float>();
  if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) fail("weights that are not finite");
  return values;
}

uint8_t* bytes_of(const Tensor& tensor) { return static_cast<uint8_t*>(tensor.raw()); }

}  // namespace

float fp8_scale(float largest) { return scale_of(largest, kLargestE4m3); }
float fp4_scale(float largest) { return scale_of(largest, kLargestE4m3 * kLargestE2m1); }

Fp8Weights to_fp8(const Tensor& weights, int channel_axis) {
  const std::span<const float> values = finite_floats(weights);
  const Axes a(weights.shape(), channel_axis);
  const Fp8Weights out{Tensor(DType::f8e4m3fn, weights.shape()), Tensor::zeros(DType::f32, Shape{a.size})};
  const std::span<float> scales = out.scales.data<float>();
  const auto row = [&](int64_t o, int64_t channel) { return (o * a.size + channel) * a.inner; };
  for (int64_t o = 0; o < a.outer; ++o) {
    for (int64_t c = 0; c < a.size; ++c) {
      float& scale = scales[static_cast<size_t>(c)];
      for (int64_t i = row(o, c); i < row(o, c) + a.inner; ++i)
        scale = std::max(scale, std::fabs(values[static_cast<size_t>(i)]));
    }
  }
  for (float& scale : scales) scale = fp8_scale(scale);
  parallel_for(a.outer * a.size, 1 + 16384 / (1 + a.inner), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const float scale = scales[static_cast<size_t>(at % a.size)];
      for (int64_t i = at * a.inner; i < (at + 1) * a.inner; ++i)
        bytes_of(out.codes)[i] = float_to_e4m3(values[static_cast<size_t>(i)] / scale);
    }
  });
  return out;
}

namespace {

// One block of NVFP4 weights at all inner positions: `count` rows of `inner` numbers.
void store_block(const float* values, int64_t count, int64_t inner, float scale, uint8_t* block_scales, uint8_t* codes,
                 int64_t first, std::vector<float>& steps) {
  steps.assign(static_cast<size_t>(inner), 0);
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < inner; ++i) {
      float& most = steps[static_cast<size_t>(i)];
      most = std::max(most, std::fabs(values[k * inner + i]));
    }
  }
  for (int64_t i = 0; i < inner; ++i) {
    float& step = steps[static_cast<size_t>(i)];
    block_scales[i] = float_to_e4m3(step / (kLargestE2m1 * scale));
    step = e4m3_to_float(block_scales[i]) * scale;
  }
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < inner; ++i) {
      const float step = steps[static_cast<size_t>(i)];
      if (!(step > 0)) continue;
      const int64_t at = first + k * inner + i;
      codes[at / 2] |= static_cast<uint8_t>(float_to_e2m1(values[k * inner + i] / step) << at % 2 * 4);
    }
  }
}

}  // namespace

Fp4Weights to_fp4(const Tensor& weights, int block_axis) {
  constexpr int64_t kBlock = Fp4Weights::kBlock;
  const std::span<const float> values = finite_floats(weights);
  const Axes a(weights.shape(), block_axis);
  const int64_t blocks = (a.size + kBlock - 1) / kBlock;
  float largest = 0;
  for (const float v : values) largest = std::max(largest, std::fabs(v));
  const float scale = fp4_scale(largest);
  Fp4Weights out{Tensor::zeros(DType::f4e2m1, weights.shape()),
                 Tensor(DType::f8e4m3fn, weights.shape().with(block_axis, blocks)), Tensor::scalar(scale)};
  // Two blocks may share a byte if a row of blocks has an odd number of elements.
  const bool apart = a.size * a.inner % 2 == 0;
  const int64_t tasks = a.outer * blocks, grain = apart ? 1 + 16384 / (1 + kBlock * a.inner) : tasks;
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> steps;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t k = at % blocks * kBlock, first = (at / blocks * a.size + k) * a.inner;
      store_block(values.data() + first, std::min(kBlock, a.size - k), a.inner, scale,
                  bytes_of(out.block_scales) + at * a.inner, bytes_of(out.codes), first, steps);
    }
  });
  return out;
}

Tensor to_floats(const Fp8Weights& weights, int channel_axis) {
  const Axes a(weights.codes.shape(), channel_axis);
  Tensor out(DType::f32, weights.codes.shape());
  const std::span<const float> scales = weights.scales.data<float>();
  for (int64_t i = 0; i < out.elements(); ++i) {
    const float scale = scales[scales.size() == 1 ? 0 : static_cast<size_t>(i / a.inner % a.size)];
    out.data<float>()[static_cast<size_t>(i)] = e4m3_to_float(bytes_of(weights.codes)[i]) * scale;
  }
  return out;
}

Tensor to_floats(const Fp4Weights& weights, int block_axis) {
  const Axes a(weights.codes.shape(), block_axis);
  const int64_t blocks = weights.block_scales.shape()[block_axis];
  const float scale = weights.scale.data<float>()[0];
  Tensor out(DType::f32, weights.codes.shape());
  for (int64_t i = 0; i < out.elements(); ++i) {
    const int64_t block = i / a.inner % a.size / Fp4Weights::kBlock;
    const int64_t at = (i / a.inner / a.size * blocks + block) * a.inner + i % a.inner;
    const auto code = static_cast<uint8_t>(bytes_of(weights.codes)[i / 2] >> i % 2 * 4 & 15);
    out.data<float>()[static_cast<size_t>(i)] =
        e2m1_to_float(code) * (e4m3_to_float(bytes_of(weights.block_scales)[at]) * scale);
  }
  return out;
}

}  // namespace sparkpilot

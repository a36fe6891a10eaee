// LRN: each element divided by a power of the squares around it, across channels:
//   y[c] = x[c] / (bias + alpha / size * sum(x[i]^2))^beta, i from c - floor((size-1)/2) to c + ceil((size-1)/2).
#include <cmath>

#include "base/parallel.h"
#include "ops/expect.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

void run(const Call& c) {
  const Shape& shape = c.inputs[0].shape;
  const int64_t channels = shape[1], pixels = shape.elements(2, shape.rank());
  const int64_t size = c.attrs().integer("size"), below = (size - 1) / 2, above = size - 1 - below;
  const double alpha = static_cast<double>(c.attrs().real("alpha", 1e-4f)) / static_cast<double>(size);
  const double beta = c.attrs().real("beta", 0.75f), bias = c.attrs().real("bias", 1);
  dispatch(FloatTypes{}, c.inputs[0].dtype, [&]<typename T>() {
    const T* x = c.inputs[0].as<T>();
    T* y = c.outputs[0].as<T>();
    parallel_for(shape[0] * channels, 1 + 4096 / (pixels + 1), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t at = plane % channels, image = plane / channels * channels;
        const int64_t first = image + std::max<int64_t>(0, at - below);
        const int64_t last = image + (above >= channels - at ? channels - 1 : at + above);
        for (int64_t p = 0; p < pixels; ++p) {
          double squares = 0;
          for (int64_t k = first; k <= last; ++k) {
            const auto v = static_cast<double>(x[k * pixels + p]);
            squares += v * v;
          }
          const double v = static_cast<double>(x[plane * pixels + p]) * std::pow(bias + alpha * squares, -beta);
          y[plane * pixels + p] = T(static_cast<Compute<T>>(v));
        }
      }
    });
  });
}

void infer(InferContext& c) {
  expect_float(c, 0);
  expect_rank(c, 0, 2, Shape::kMaxRank);
  const int64_t size = c.attrs.integer("size");
  if (size < 1) fail("size is {}, expected at least 1", size);
  c.output(0, c.dtype(0), c.shape(0));
}

double cost(const Problem& p) {
  const int64_t size = std::min(p.attrs().integer("size"), p.inputs[0].shape[1]);
  return static_cast<double>(2 * size + 10) * static_cast<double>(p.inputs[0].shape.elements());
}

std::vector<OpCase> cases() {
  return {{"odd", {CaseInput::of({2, 7, 3, 5})}, {{"size", int64_t{3}}, {"alpha", 0.5f}}},
          {"even", {CaseInput::of({1, 5, 9})}, {{"size", int64_t{4}}, {"alpha", 0.5f}, {"beta", 0.5f}}},
          {"wide", {CaseInput::of({2, 3})}, {{"size", int64_t{1} << 40}, {"bias", 2.0f}}},
          {"f16", {CaseInput::of({1, 4, 3, 3}, DType::f16)}, {{"size", int64_t{3}}}}};
}

constexpr AttrSpec kAttrs[] = {
    {"alpha", AttrType::real}, {"beta", AttrType::real}, {"bias", AttrType::real}, {"size", AttrType::integer, true}};
constexpr Kernel kCpu[] = {{.name = "reference", .run = run}};

const OpDef kOps[] = {{.name = "LRN",
                       .doc = "Local response normalisation across channels.",
                       .since = 1,
                       .inputs = {1, 1},
                       .outputs = {1, 1},
                       .attributes = kAttrs,
                       .infer = infer,
                       .cpu = kCpu,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> lrn_ops() { return kOps; }

}  // namespace sparkpilot

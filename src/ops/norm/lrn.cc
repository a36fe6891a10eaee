// LRN: each element divided by a power of the squares around it, across channels:
//   y[c] = x[c] / (bias + alpha / size * sum(x[i]^2))^beta, i from c - floor((size-1)/2) to c + ceil((size-1)/2).
#include <cmath>

#include "base/parallel.h"
#include "ops/expect.h"
#include "ops/formula.h"
#include "ops/registry.h"

namespace sparkpilot::lrn_ops {
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

// With s the sum below the power: dx = g s^-beta - 2 alpha / size beta x * (sum of g x s^(-beta-1) over the channels
// whose windows hold x's). Sums over windows are products with a matrix of ones and zeros.
std::vector<ValueId> gradient(GradContext& c) {
  const Shape shape = c.b.shape(c.in(0));
  const int64_t channels = shape[1], size = c.node.attrs.integer("size");
  const int64_t below = (size - 1) / 2, above = size - 1 - below;
  const Shape planes{shape[0], channels, shape.elements(2, shape.rank())};
  const Term x = Term(c.b, c.in(0)).as(planes), g = Term(c.b, c.out_grads[0]).as(planes);
  Tensor window = Tensor::zeros(x.dtype(), Shape{channels, channels});
  for (int64_t at = 0; at < channels; ++at) {
    for (int64_t k = 0; k < channels; ++k) {
      if (k >= at - below && k - above <= at) store_element(x.dtype(), window.raw(), at * channels + k, 1);
    }
  }
  const Term sums(c.b, c.b.constant(std::move(window)));
  const double alpha = static_cast<double>(c.node.attrs.real("alpha", 1e-4f)) / static_cast<double>(size);
  const double beta = c.node.attrs.real("beta", 0.75f), bias = c.node.attrs.real("bias", 1);
  const Term s = alpha * node("MatMul", sums, x * x) + bias;
  const Term held = node("MatMul", sums.swapped(std::vector<int64_t>{1, 0}), g * x * power(s, -beta - 1));
  return {(g * power(s, -beta) - 2 * alpha * beta * x * held).as(shape)};
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
                       .grad = gradient,
                       .cost = cost,
                       .cases = cases}};

}  // namespace

std::span<const OpDef> all() { return kOps; }

}  // namespace sparkpilot::lrn_ops

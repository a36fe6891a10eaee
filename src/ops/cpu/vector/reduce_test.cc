#include "ops/cpu/vector/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "base/random.h"
#include "tensor/tensor.h"

namespace sparkpilot {
namespace {

struct ReduceCase {
  Shape shape;
  uint32_t axes;
};

Tensor reduced(Reduce kind, const Tensor& x, uint32_t axes) {
  std::vector<int64_t> kept;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (!(axes >> axis & 1)) kept.push_back(x.shape()[axis]);
  }
  Tensor y(DType::f32, Shape(std::span<const int64_t>(kept)));
  reduce_floats(kind, ReducePlan(x.shape(), axes), x.view(), y.view());
  return y;
}

// By the elements' coordinates, in double.
std::vector<double> by_coordinates(Reduce kind, const Tensor& x, uint32_t axes, int64_t outputs) {
  std::vector<double> y(static_cast<size_t>(outputs), kind == Reduce::max ? -INFINITY : 0);
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int axis = x.shape().rank() - 1; axis >= 0; --axis) {
      const int64_t coordinate = rest % x.shape()[axis];
      rest /= x.shape()[axis];
      if (axes >> axis & 1) continue;
      at += coordinate * stride;
      stride *= x.shape()[axis];
    }
    const double value = x.view().as<float>()[i];
    double& sum = y[static_cast<size_t>(at)];
    sum = kind == Reduce::max ? std::max(sum, value) : sum + (kind == Reduce::sum_square ? value * value : value);
  }
  const double count = static_cast<double>(x.elements()) / static_cast<double>(outputs);
  if (kind == Reduce::mean) {
    for (double& sum : y) sum /= count;
  }
  return y;
}

// Few columns of many rows, which threads share; narrow rows, added side by side; short runs of neighbours.
TEST(Reduce, ManyNarrowRowsAndShortRuns) {
  const ReduceCase cases[] = {
      {{4, 181, 193, 3}, 0b0111}, {{2, 77001}, 0b10},        {{70001, 7}, 0b01},       {{6, 33, 5, 900}, 0b0111},
      {{2, 40000, 3, 2}, 0b1011}, {{3, 4, 1031, 4}, 0b1010}, {{5, 3, 17, 16}, 0b1010}, {{3, 7, 4, 129, 2}, 0b10100},
  };
  for (const ReduceCase& each : cases) {
    Tensor x(DType::f32, each.shape);
    Random random(7);
    for (int64_t i = 0; i < x.elements(); ++i) x.view().as<float>()[i] = static_cast<float>(random.uniform(0.1, 1.9));
    for (const Reduce kind : {Reduce::sum, Reduce::mean, Reduce::max, Reduce::sum_square}) {
      const auto with = [&](int threads) {
        const ThreadScope scope(threads);
        return reduced(kind, x, each.axes);
      };
      const Tensor one = with(1), three = with(3);
      EXPECT_EQ(std::memcmp(one.raw(), three.raw(), static_cast<size_t>(one.bytes())), 0) << "other bits by threads";
      const std::vector<double> expected = by_coordinates(kind, x, each.axes, one.elements());
      for (int64_t i = 0; i < one.elements(); ++i) {
        const double y = expected[static_cast<size_t>(i)];
        ASSERT_NEAR(one.view().as<float>()[i], y, 1e-5 * std::fabs(y)) << i << " of kind " << static_cast<int>(kind);
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot

#include "tensor/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"

namespace sparkpilot {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

Tensor of(std::initializer_list<float> values) {
  return Tensor::of<float>(Shape{static_cast<int64_t>(values.size())}, values);
}

TEST(Difference, OfEqualTensorsIsNone) {
  const Tensor a = of({1, -2, kNan, kInfinity, -kInfinity, 0});
  const Difference d = difference_of(a.view(), a.view());
  EXPECT_TRUE(d.equal());
  EXPECT_EQ(d.relative_l2, 0);
  EXPECT_EQ(d.cosine, 1);
  EXPECT_EQ(d.not_finite, 0);
  EXPECT_EQ(d.both_alike, 3);
  EXPECT_EQ(d.elements, 6);
}

TEST(Difference, OfKnownVectors) {
  const Difference d = difference_of(of({3, 4, 0}).view(), of({3, 0, 0}).view());
  EXPECT_DOUBLE_EQ(d.max_abs, 4);
  EXPECT_EQ(d.worst_index, 1);
  EXPECT_DOUBLE_EQ(d.relative_l2, 4.0 / 3);
  EXPECT_DOUBLE_EQ(d.cosine, 0.6);
}

TEST(Difference, OfValuesThatAreNotFiniteIsInfinite) {
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    for (const auto& [got, expected] : {std::pair{of({1, bad, 5}), of({1, 2, 1})}, {of({1, 2, 5}), of({1, bad, 1})}}) {
      const Difference d = difference_of(got.view(), expected.view());
      EXPECT_EQ(d.not_finite, 1);
      EXPECT_EQ(d.worst_index, 1);
      EXPECT_TRUE(std::isinf(d.max_abs) && std::isinf(d.relative_l2));
      EXPECT_FALSE(d.equal());
    }
  }
  EXPECT_EQ(difference_of(of({kInfinity}).view(), of({-kInfinity}).view()).not_finite, 1);
}

TEST(Difference, ToZerosIsLarge) {
  const Difference d = difference_of(of({1, 1}).view(), of({0, 0}).view());
  EXPECT_GT(d.relative_l2, 1e14);
  EXPECT_LT(difference_of(of({1e-40F}).view(), of({0}).view()).relative_l2, 1e-20);
  EXPECT_EQ(d.cosine, 0);
  EXPECT_TRUE(difference_of(of({0, 0}).view(), of({0, -0.0f}).view()).equal());
}

TEST(Difference, OfSmallNumbersIsRelativeToThem) {
  EXPECT_NEAR(difference_of(of({5e-18f, 0}).view(), of({1e-18f, 0}).view()).relative_l2, 4, 1e-6);
  EXPECT_NEAR(difference_of(of({0, 0}).view(), of({1e-18f, 0}).view()).relative_l2, 1, 1e-6);
  // Where f32 has few bits, or none where it is flushed to zero, nothing is judged.
  EXPECT_LT(difference_of(of({0, 0}).view(), of({1e-41f, 3e-40f}).view()).relative_l2, 1e-9);
  const Tensor large = Tensor::of<double>(Shape{1}, {1e200}), other = Tensor::of<double>(Shape{1}, {2e200});
  EXPECT_TRUE(std::isinf(difference_of(large.view(), other.view()).relative_l2));
  EXPECT_EQ(difference_of(large.view(), other.view()).cosine, 0);
  EXPECT_EQ(difference_of(large.view(), large.view()).relative_l2, 0);
}

// Summed over samples it is that of the samples one after the other, and types may differ.
TEST(Difference, SumsOverSamplesAndTypes) {
  Random random(3);
  Tensor got(DType::f32, Shape{2, 37}), expected(DType::f16, Shape{2, 37});
  for (int64_t i = 0; i < got.elements(); ++i) {
    store_element(DType::f32, got.raw(), i, random.normal());
    store_element(DType::f16, expected.raw(), i, random.normal());
  }
  DifferenceSum sum;
  for (int64_t row = 0; row < 2; ++row) {
    sum.add({DType::f32, Shape{37}, static_cast<const float*>(got.raw()) + row * 37},
            {DType::f16, Shape{37}, static_cast<const uint16_t*>(expected.raw()) + row * 37});
  }
  const Difference parts = sum.result(), whole = difference_of(got.view(), expected.view());
  EXPECT_DOUBLE_EQ(parts.relative_l2, whole.relative_l2);
  EXPECT_DOUBLE_EQ(parts.cosine, whole.cosine);
  EXPECT_EQ(parts.max_abs, whole.max_abs);
  EXPECT_EQ(parts.elements, 74);
  EXPECT_LT(std::abs(whole.cosine), 0.5);
}

}  // namespace
}  // namespace sparkpilot

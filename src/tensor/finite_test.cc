#include "tensor/finite.h"

#include <gtest/gtest.h>

#include <limits>

namespace sparkpilot {
namespace {

TEST(Finite, FindsOneElementAnywhere) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const int64_t size : {1, 15, 16, 17, 64, 333, 200'003}) {
      Tensor tensor(dtype, Shape{size});
      for (int64_t i = 0; i < size; ++i) store_element(dtype, tensor.raw(), i, i % 7 == 0 ? -60000 : 1e-7);
      EXPECT_TRUE(all_finite(tensor.view())) << name(dtype) << " " << size;
      for (const double special : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
        for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
          Tensor changed = tensor.clone();
          store_element(dtype, changed.raw(), at, special);
          EXPECT_FALSE(all_finite(changed.view())) << name(dtype) << " " << size << " at " << at;
        }
      }
    }
  }
}

TEST(Finite, IntegersAreAndEmptyIs) {
  EXPECT_TRUE(all_finite(Tensor::zeros(DType::i32, Shape{3}).view()));
  EXPECT_TRUE(all_finite(Tensor(DType::f32, Shape{0}).view()));
}

}  // namespace
}  // namespace sparkpilot

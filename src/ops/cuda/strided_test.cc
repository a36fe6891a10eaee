#include "ops/cuda/strided.h"

#include <gtest/gtest.h>

namespace sparkpilot::cuda::strided_test {
namespace {

// As device::divide computes it.
unsigned quotient(unsigned n, const Divisor& by) {
  const auto high = static_cast<unsigned>(uint64_t{n} * by.multiplier >> 32);
  return (high + n) >> by.shift;
}

TEST(CudaStrided, DivisorsAreExact) {
  const unsigned most = 0x7fffffff;
  for (unsigned size = 1; size != 0 && size < most; size += 1 + size / 7) {
    const Divisor divisor = make_divisor(size);
    for (unsigned multiple = 0; multiple < most - size; multiple += (most / 11 / size + 1) * size) {
      for (const unsigned n : {multiple, multiple + 1, multiple + size - 1}) {
        ASSERT_EQ(quotient(n, divisor), n / size) << n << " / " << size;
      }
    }
    ASSERT_EQ(quotient(most, divisor), most / size) << size;
  }
  EXPECT_EQ(quotient(most, make_divisor(most)), 1u);
  EXPECT_ANY_THROW(make_divisor(0));
  EXPECT_ANY_THROW(make_divisor(int64_t{1} << 31));
}

TEST(CudaStrided, MergesWhatEveryOperandWalksThroughAsOne) {
  const StridedLoops loops =
      StridedLoops{.sizes = {2, 1, 3, 4, 5}, .strides = {{60, 60, 20, 5, 1}, {0, 0, 0, 5, 1}}}.merged();
  EXPECT_EQ(loops.sizes, (std::vector<int64_t>{6, 20}));
  EXPECT_EQ(loops.strides[0], (std::vector<int64_t>{20, 1}));
  EXPECT_EQ(loops.strides[1], (std::vector<int64_t>{0, 1}));
  const StridedLoops one = StridedLoops{.sizes = {1, 1}, .strides = {{1, 1}}}.merged();
  EXPECT_EQ(one.sizes, (std::vector<int64_t>{1}));
  EXPECT_EQ(broadcast_strides({3, 1}, {2, 3, 4}), (std::vector<int64_t>{0, 1, 0}));
}

TEST(CudaStrided, RefusesWhatKernelsCannotIndex) {
  const std::vector<int64_t> sizes(7, 2);
  std::vector<int64_t> strides = contiguous_strides(sizes);
  for (int64_t& stride : strides) stride *= 3;
  for (size_t i = 0; i < 7; ++i) strides[i] += static_cast<int64_t>(i);  // nothing merges
  EXPECT_ANY_THROW(make_dimensions(StridedLoops{.sizes = sizes, .strides = {strides}}.merged()));
  EXPECT_ANY_THROW(make_dimensions({.sizes = {1 << 16, 1 << 15}, .strides = {}}));
  int to[kMostDimensions];
  EXPECT_ANY_THROW(set_strides(to, {int64_t{1} << 31}));
}

}  // namespace
}  // namespace sparkpilot::cuda::strided_test

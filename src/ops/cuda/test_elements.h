// For tests of kernels that take elements of any type.
#pragma once

#include "ops/cuda/strided.h"
#include "ops/cuda/test_kernels.h"

namespace sparkpilot::cuda {

struct TestElement {
  ElementType type;
  TestStorage storage;
  bool integer;
};
inline const std::vector<TestElement> kElements = {
    {ElementType::f32, {"f32", DType::f32, 0x1p-23, 0}, false},
    {ElementType::f16, {"f16", DType::f16, 0x1p-10, 0x1p-25}, false},
    {ElementType::bf16, {"bf16", DType::bf16, 0x1p-7, 0}, false},
    {ElementType::i32, {"i32", DType::i32, 0, 0}, true},
    {ElementType::i64, {"i64", DType::i64, 0, 0}, true},
    {ElementType::u8, {"u8", DType::u8, 0, 0}, true},
    {ElementType::i8, {"i8", DType::i8, 0, 0}, true},
    {ElementType::boolean, {"boolean", DType::boolean, 0, 0}, true},
};
inline const TestElement& element_of(ElementType type) { return kElements[static_cast<size_t>(type)]; }

// As TestRun::near, but NaN and infinities must be where they are expected.
inline testing::AssertionResult near_special(TestRun& run, const std::vector<double>& expected, double tolerance,
                                             double scale = 0) {
  const std::vector<double> y = run.values();
  if (y.size() != expected.size()) return testing::AssertionFailure() << y.size() << " elements";
  for (size_t i = 0; i < y.size(); ++i) {
    const double e = expected[i];
    const bool good = std::isnan(e) || std::isinf(e) ? (std::isnan(e) ? std::isnan(y[i]) : y[i] == e)
                                                     : std::fabs(y[i] - e) <= tolerance * std::max(std::fabs(e), scale);
    if (!good) return testing::AssertionFailure() << "element " << i << ": " << y[i] << ", expected " << e;
  }
  return testing::AssertionSuccess();
}

// The offset of element `index` of a tensor with these sizes in one with these strides.
inline int64_t strided_offset(int64_t index, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t at = 0;
  for (size_t i = sizes.size(); i-- > 0; index /= sizes[i]) at += index % sizes[i] * strides[i];
  return at;
}
inline int64_t product(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

}  // namespace sparkpilot::cuda

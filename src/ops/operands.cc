#include "ops/operands.h"

#include <algorithm>

#include "base/error.h"

namespace sparkpilot {

std::vector<int64_t> list_operand(const InferContext& c, int i, int64_t most) {
  const Shape& shape = c.shape(i);
  if (shape.rank() > 1) fail("input {} has shape {}, expected a list", i, shape.str());
  if (shape.elements() > most) fail("input {} has {} elements, expected at most {}", i, shape.elements(), most);
  return c.ints(i);
}

int64_t scalar_operand(const InferContext& c, int i) {
  if (c.shape(i).elements() != 1) fail("input {} has shape {}, expected one element", i, c.shape(i).str());
  return c.ints(i)[0];
}

std::vector<int> distinct_axes(std::span<const int64_t> axes, int rank) {
  std::vector<int> out;
  for (const int64_t axis : axes) {
    const int at = normalize_axis(axis, rank);
    if (std::find(out.begin(), out.end(), at) != out.end()) fail("axis {} is given twice", at);
    out.push_back(at);
  }
  return out;
}

void expect_index_dtype(const InferContext& c, int i) {
  if (c.dtype(i) != DType::i32 && c.dtype(i) != DType::i64) {
    fail("input {} is {}, expected i32 or i64", i, name(c.dtype(i)));
  }
}

DType dtype_attribute(const Attributes& attrs, std::string_view key, DType fallback) {
  if (!attrs.has(key)) return fallback;
  const int64_t code = attrs.integer(key);
  const auto dtype = dtype_from_onnx(code);
  if (!dtype) fail("attribute {} = {} names no supported element type", key, code);
  return *dtype;
}

}  // namespace sparkpilot

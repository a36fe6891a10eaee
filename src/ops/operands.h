// Helpers for the `infer` functions of shape and indexing ops: operands that hold sizes, axes and counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/op.h"
#include "ops/expect.h"

namespace sparkpilot {

// Operand i as a list: at most one dimension, i32 or i64, at most `most` elements. Fails (user) otherwise; throws
// ValueUnknown while its contents are not known.
std::vector<int64_t> list_operand(const InferContext& c, int i, int64_t most = Shape::kMaxRank);
// Operand i as one integer: a scalar or a tensor of one element.
int64_t scalar_operand(const InferContext& c, int i);

// Axes as indices in [0, rank), in the order given; negative ones count from the end. Fails (user) if one is out of
// range or repeated.
std::vector<int> distinct_axes(std::span<const int64_t> axes, int rank);

// Indices are i32 or i64; fails (user) on another dtype.
void expect_index_dtype(const InferContext& c, int i);

// The dtype that an attribute names by ONNX's number, or the fallback if absent; fails (user) if the type is not
// supported.
DType dtype_attribute(const Attributes& attrs, std::string_view key, DType fallback);

// Checks the bounds of an index into `size` elements; negative ones count from the end. Fails (user).
inline int64_t checked_index(int64_t index, int64_t size) {
  if (index < -size || index >= size) fail("index {} is outside [-{},{})", index, size, size);
  return index < 0 ? index + size : index;
}

// The cost of ops that only move data.
inline double no_flops(const Problem&) { return 0; }

}  // namespace sparkpilot

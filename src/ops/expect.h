// Checks for the inputs in an op's `infer`, with messages that say what was found.
#pragma once

#include <fmt/core.h>

#include <string_view>

#include "ir/op.h"

namespace sparkpilot {

template <typename... Ts>
void expect_dtype(const InferContext& c, int input, TypeList<Ts...> types, std::string_view what) {
  if (!contains(types, c.dtype(input))) fail("input {} is {}, expected {}", input, name(c.dtype(input)), what);
}

inline void expect_float(const InferContext& c, int input) {
  expect_dtype(c, input, FloatTypes{}, "f16, bf16, f32 or f64");
}

inline void expect_same_dtype(const InferContext& c, int input, int as) {
  if (c.dtype(input) != c.dtype(as)) {
    fail("input {} is {}, input {} is {}", input, name(c.dtype(input)), as, name(c.dtype(as)));
  }
}

inline void expect_rank(const InferContext& c, int input, int least, int most) {
  const int rank = c.rank(input);
  if (rank >= least && rank <= most) return;
  if (least == most) fail("input {} has rank {}, expected {}", input, rank, least);
  if (most >= Shape::kMaxRank) fail("input {} has rank {}, expected at least {}", input, rank, least);
  fail("input {} has rank {}, expected {} to {}", input, rank, least, most);
}

inline void expect_shape(const InferContext& c, int input, const Shape& shape) {
  if (!(c.shape(input) == shape)) {
    fail("input {} has shape {}, expected {}", input, c.shape(input).str(), shape.str());
  }
}

}  // namespace sparkpilot

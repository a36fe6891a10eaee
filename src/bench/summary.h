// Summarises a tensor in a few numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace sparkpilot {

struct TensorSummary {
  // Of the finite elements; empty if no element is finite.
  std::optional<double> mean, deviation, min, max;
  int64_t not_finite = 0, nan = 0, infinite = 0;  // all; NaN; +infinity
};

TensorSummary summarize(const ConstView& view);

}  // namespace sparkpilot

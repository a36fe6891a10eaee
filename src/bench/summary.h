// A tensor in a few numbers.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace sparkpilot {

struct TensorSummary {
  // Of the finite elements; 0 where there are none.
  double mean = 0, deviation = 0, min = 0, max = 0;
  int64_t not_finite = 0;
};

TensorSummary summarize(const ConstView& view);

}  // namespace sparkpilot

// The gradient of norms: of values with zero mean and unit variance over some axes, or with a unit mean square.
#pragma once

#include "ops/formula.h"

namespace sparkpilot {

struct Normalized {
  Term value;    // (x - mean) * inverse, or x * inverse
  Term inverse;  // 1 / sqrt(variance + epsilon), of the mean of squares without `centred`
  std::vector<int64_t> axes;
  bool centred;
};

inline Normalized normalized(Term x, std::vector<int64_t> axes, double epsilon, bool centred) {
  const Term distance = centred ? x - x.over("ReduceMean", axes) : x;
  const Term inverse = 1 / ((distance * distance).over("ReduceMean", axes) + epsilon).of("Sqrt");
  return {distance * inverse, inverse, std::move(axes), centred};
}

// What flows to x, from what flows to the normalised values.
inline Term gradient_of(const Normalized& n, Term g) {
  const Term along = g - n.value * (g * n.value).over("ReduceMean", n.axes);
  return n.inverse * (n.centred ? along - g.over("ReduceMean", n.axes) : along);
}

}  // namespace sparkpilot

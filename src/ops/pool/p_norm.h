// The gradient of a p-norm y = (sum of |x|^p)^(1/p): dx = p_norm_slope(x) * p_norm_share(y, g).
#pragma once

#include "ops/formula.h"

namespace sparkpilot {

// |x|^(p-1) with the sign of x.
inline Term p_norm_slope(Term x, int64_t p) {
  if (p == 2) return x;
  return p == 1 ? x.of("Sign") : x.of("Sign") * power(x.of("Abs"), static_cast<double>(p - 1));
}
// g y^(1-p); 0 where y is 0, as all of x is then.
inline Term p_norm_share(Term y, Term g, int64_t p) {
  if (p == 1) return g;
  const Term safe = where(y > 0, y, 1);
  return where(y > 0, p == 2 ? g / safe : g * power(safe, static_cast<double>(1 - p)), 0);
}

}  // namespace sparkpilot

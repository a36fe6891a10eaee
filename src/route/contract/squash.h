// How openpilot's parsers turn a network's outputs into probabilities and deviations
// (selfdrive/modeld/parse_model_outputs.py; driver monitoring uses the same).
#pragma once

#include <algorithm>
#include <cmath>

namespace sparkpilot::drive {

// Limited to 11, beyond which a half-precision exponential would overflow. NaN stays NaN.
inline float exponential(float x) { return std::exp(std::min(x, 11.0F)); }
inline float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

}  // namespace sparkpilot::drive

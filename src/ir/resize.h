// A rounding of Resize that no file has: what the first Resize and Upsample did where their scales are not known ahead.
#pragma once

#include <string_view>

namespace sparkpilot {

// nearest_mode: ceil on axes that shrink, floor on others.
inline constexpr std::string_view kRoundByScale = "sparkpilot_by_scale";

}  // namespace sparkpilot

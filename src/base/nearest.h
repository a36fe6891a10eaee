// Suggestions for mistyped names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

// " (did you mean X?)" with the nearest name within two inserted, omitted or changed letters of `word`, ignoring case;
// else nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace sparkpilot

// What somebody may have meant who mistyped a name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

// " (did you mean X?)" with the name that is at most two letters put in, left out or changed away from `word`, upper
// and lower case being one; else nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& names);

}  // namespace sparkpilot

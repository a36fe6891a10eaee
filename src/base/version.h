// What this program was built from and by.
#pragma once

#include <string_view>

namespace sparkpilot {

std::string_view program_version();   // "0.1.0"
std::string_view compiler_version();  // "gcc 12.2.0"

}  // namespace sparkpilot

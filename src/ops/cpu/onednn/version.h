// Which oneDNN the kernels call.
#pragma once

#include <string>

namespace sparkpilot {

// Of the library that is loaded, not of its headers: "2.6.3".
std::string onednn_version();

}  // namespace sparkpilot

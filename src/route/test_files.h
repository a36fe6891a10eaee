// For tests of this room: the real inputs, if present.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/test_files.h"

namespace sparkpilot::drive {

// Where a real input is, or an empty path.
inline std::filesystem::path asset(const std::string& relative) {
  const char* set = std::getenv("SPARKPILOT_ASSETS");
  const std::filesystem::path folder = set ? set : SPARKPILOT_SOURCE_DIR "/../shared/assets";
  const std::filesystem::path path = folder / relative;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace sparkpilot::drive

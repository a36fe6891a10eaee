// For tests of this room: the real inputs, if present.
#pragma once

#include <filesystem>
#include <string>

#include "base/test_assets.h"
#include "base/test_files.h"

namespace sparkpilot::drive {

// Where a real input is, or an empty path.
inline std::filesystem::path asset(const std::string& relative) {
  const std::filesystem::path path = assets_folder() / relative;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace sparkpilot::drive

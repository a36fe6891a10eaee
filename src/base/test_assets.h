// For tests: the folder of real models and data next to the sources, which may be absent.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace sparkpilot {

// $SPARKPILOT_ASSETS, else ../shared/assets next to the sources.
inline std::filesystem::path assets_folder() {
  if (const char* given = std::getenv("SPARKPILOT_ASSETS")) return given;
  return std::filesystem::path(SPARKPILOT_SOURCE_DIR) / ".." / "shared" / "assets";
}

}  // namespace sparkpilot

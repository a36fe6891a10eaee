// Files for the tests of this room: a folder that goes away, texts, and the real inputs where they are present.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sparkpilot::drive {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sparkpilot_drive_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Where a real input is, or an empty path.
inline std::filesystem::path asset(const std::string& relative) {
  const char* set = std::getenv("SPARKPILOT_ASSETS");
  const std::filesystem::path folder = set ? set : SPARKPILOT_SOURCE_DIR "/../shared/assets";
  const std::filesystem::path path = folder / relative;
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace sparkpilot::drive

#include "base/resolve_in_root.h"

#include <deque>
#include <string>

namespace sparkpilot {
namespace fs = std::filesystem;

std::optional<fs::path> resolve_in_root(const fs::path& root, const fs::path& path) {
  constexpr int kMaxLinks = 40;
  if (path.native().find('\0') != std::string::npos) return std::nullopt;
  std::deque<fs::path> rest(path.begin(), path.end());
  fs::path at = "/";
  bool folder = true;  // whether `at` is a folder
  for (int links = 0; !rest.empty();) {
    const fs::path part = rest.front();
    rest.pop_front();
    if (part.empty() || part == "." || part == "/") continue;
    if (part == "..") {
      if (!folder) return std::nullopt;
      at = at.parent_path();
      continue;
    }
    const fs::path next = at / part, outside = root / next.relative_path();
    std::error_code error;
    const fs::file_status status = fs::symlink_status(outside, error);
    if (!fs::is_symlink(status)) {
      at = next;
      folder = fs::is_directory(status);
      continue;
    }
    if (++links > kMaxLinks) return std::nullopt;
    const fs::path target = fs::read_symlink(outside, error);
    if (error) return std::nullopt;
    if (target.is_absolute()) at = "/";
    rest.insert(rest.begin(), target.begin(), target.end());
  }
  return at;
}

}  // namespace sparkpilot

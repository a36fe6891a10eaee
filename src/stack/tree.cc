#include "stack/tree.h"

#include <algorithm>

#include "base/error.h"
#include "base/resolve_in_root.h"
#include "stack/text.h"

namespace sparkpilot::stack {
namespace fs = std::filesystem;

Tree::Tree(fs::path root) : root_(std::move(root)) {
  std::error_code error;
  if (!fs::is_directory(root_, error)) fail("{}: expected a folder", root_.string());
}

std::optional<fs::path> Tree::resolve(const fs::path& path) const {
  std::optional<fs::path> found = resolve_in_root(root_, path);
  std::error_code error;
  if (found && !fs::exists(fs::symlink_status(outside(*found), error))) found.reset();
  return found;
}

bool Tree::is_folder(const fs::path& path) const {
  const auto resolved = resolve(path);
  std::error_code error;
  return resolved && fs::is_directory(fs::symlink_status(outside(*resolved), error));
}

InputFile Tree::open(const fs::path& path) const {
  const auto resolved = resolve(path);
  if (!resolved) fail("{}: no such file", path.string());
  return InputFile(outside(*resolved));
}

std::string Tree::text(const fs::path& path, int64_t limit) const {
  const auto resolved = resolve(path);
  if (!resolved) return {};
  try {
    return read_file(outside(*resolved), limit);
  } catch (const Error&) {
    return {};
  }
}

std::vector<std::string> Tree::names(const fs::path& folder, std::vector<std::string>* notes) const {
  std::vector<std::string> list;
  const auto resolved = resolve(folder);
  if (!resolved) return list;
  std::error_code error;
  for (fs::directory_iterator entry(outside(*resolved), error), end; !error && entry != end; entry.increment(error)) {
    list.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::not_a_directory && notes) {
    notes->push_back(fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::vector<fs::path> Tree::find(std::string_view pattern) const {
  std::vector<fs::path> found{"/"};
  for (const fs::path& part : fs::path(pattern).relative_path()) {
    std::vector<fs::path> next;
    for (const fs::path& at : found) {
      if (part.native().find('*') == std::string::npos) {
        if (has(at / part)) next.push_back(at / part);
        continue;
      }
      for (const std::string& name : names(at)) {
        if (matches(part.native(), name) && has(at / name)) next.push_back(at / name);
      }
    }
    found = std::move(next);
  }
  return found;
}

std::vector<fs::path> Tree::files_below(const fs::path& folder, bool (*wanted)(std::string_view),
                                        std::vector<std::string>* notes) const {
  std::vector<fs::path> found, folders{folder};
  while (!folders.empty()) {
    const fs::path at = folders.back();
    folders.pop_back();
    const auto resolved = resolve(at);
    if (!resolved) continue;
    for (const std::string& name : names(at, notes)) {
      std::error_code error;
      const fs::file_status status = fs::symlink_status(outside(*resolved / name), error);
      if (fs::is_directory(status)) folders.push_back(at / name);
      else if (wanted(name) && (fs::is_regular_file(status) || fs::is_symlink(status))) found.push_back(at / name);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace sparkpilot::stack

// A file tree whose root is some folder: paths are those of a process with that root, and no symbolic link leads out of
// it. The tree of this machine has the root "/".
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace sparkpilot::stack {

class Tree {
 public:
  // Fails (user) if it is not a folder.
  explicit Tree(std::filesystem::path root = "/");

  // The target after following all links, as a path in the tree; empty if it does not exist or links form a cycle.
  std::optional<std::filesystem::path> resolve(const std::filesystem::path& path) const;
  bool has(const std::filesystem::path& path) const { return resolve(path).has_value(); }
  bool is_folder(const std::filesystem::path& path) const;
  // Fails (user) if it is not a regular file or may not be read.
  InputFile open(const std::filesystem::path& path) const;
  // The file's text; empty if it is absent, may not be read, or is larger than `limit`.
  std::string text(const std::filesystem::path& path, int64_t limit = 16 << 20) const;
  // The names in a folder, sorted; none if there is no such folder. What could not be read is added to `notes`.
  std::vector<std::string> names(const std::filesystem::path& folder, std::vector<std::string>* notes = nullptr) const;
  // Paths that match a pattern such as "/usr/local/cuda*/lib64", sorted.
  std::vector<std::filesystem::path> find(std::string_view pattern) const;
  // Files below `folder` whose name `wanted` accepts, sorted; linked folders are not entered.
  std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder, bool (*wanted)(std::string_view),
                                                 std::vector<std::string>* notes = nullptr) const;

 private:
  // The path outside of the tree of a path without links.
  std::filesystem::path outside(const std::filesystem::path& path) const { return root_ / path.relative_path(); }
  std::filesystem::path root_;
};

}  // namespace sparkpilot::stack

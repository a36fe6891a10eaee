// A file tree whose root is some folder: paths are what a process would see whose root it is, and no symbolic link
// leads out of it. The tree of this machine has the root "/".
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
  // Fails (user) where it is no folder.
  explicit Tree(std::filesystem::path root = "/");

  // What is behind all links, seen from inside; empty where there is nothing or links go in circles.
  std::optional<std::filesystem::path> resolve(const std::filesystem::path& path) const;
  bool has(const std::filesystem::path& path) const { return resolve(path).has_value(); }
  bool is_folder(const std::filesystem::path& path) const;
  // Fails (user) where it is no regular file or may not be read.
  InputFile open(const std::filesystem::path& path) const;
  // The file's text; empty where it is not there, may not be read, or is larger than `limit`.
  std::string text(const std::filesystem::path& path, int64_t limit = 16 << 20) const;
  // The names in a folder, sorted; none where there is no such folder. What could not be read is added to `notes`.
  std::vector<std::string> names(const std::filesystem::path& folder, std::vector<std::string>* notes = nullptr) const;
  // Paths that a pattern such as "/usr/local/cuda*/lib64" stands for, sorted.
  std::vector<std::filesystem::path> find(std::string_view pattern) const;
  // Files below `folder` whose name `wanted` takes, sorted; linked folders are not entered.
  std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder, bool (*wanted)(std::string_view),
                                                 std::vector<std::string>* notes = nullptr) const;

 private:
  // Where a path without links lies outside.
  std::filesystem::path outside(const std::filesystem::path& path) const { return root_ / path.relative_path(); }
  std::filesystem::path root_;
};

}  // namespace sparkpilot::stack

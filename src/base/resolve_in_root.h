// Paths in a file tree below some folder: a mounted disk, a container's root.
#pragma once

#include <filesystem>
#include <optional>

namespace sparkpilot {

// The target of `path` for a process whose root is the folder `root`: links are followed, and neither they nor ".."
// lead out (openat2's RESOLVE_IN_ROOT). The result p is absolute and without links; the file is at `root /
// p.relative_path()`.
//
// Parts that are missing or may not be read are kept as they are: opening the path then gives the reason. Empty if
// links form a cycle or are more than 40 (Linux's limit), or if ".." follows what is not a folder. If the tree changes
// meanwhile, the path may lead out of it.
std::optional<std::filesystem::path> resolve_in_root(const std::filesystem::path& root,
                                                     const std::filesystem::path& path);

}  // namespace sparkpilot

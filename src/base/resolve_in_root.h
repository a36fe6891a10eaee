// Paths in a file tree that lies below some folder: a mounted disk, a container's root.
#pragma once

#include <filesystem>
#include <optional>

namespace sparkpilot {

// What `path` leads to, as a process sees it whose root is the folder `root`: its links are followed, and neither they
// nor ".." lead out (openat2's RESOLVE_IN_ROOT). Absolute and without links; below `root`, `root / p.relative_path()`.
//
// What is not there, or may not be looked at, is taken as it stands: whoever opens it learns why. Empty where links go
// in circles or are more than 40, as Linux has it, and where ".." leaves what is no folder. A tree that is changed
// meanwhile may be led out of.
std::optional<std::filesystem::path> resolve_in_root(const std::filesystem::path& root,
                                                     const std::filesystem::path& path);

}  // namespace sparkpilot

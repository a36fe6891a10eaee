// The ML stack of a machine, an environment, or a folder: every library that it consists of, with what each holds for
// GPUs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stack/library.h"

namespace sparkpilot::stack {

struct AuditOptions {
  std::filesystem::path root = "/";  // another file tree: paths below are then seen from inside
  // Files, folders and wheels; Python environments. Where both are empty, the places in which systems keep their
  // libraries, and the Python environments in the usual ones.
  std::vector<std::filesystem::path> paths, environments;
  // Where environments are looked for besides, such as the current folder; and libraries: $LD_LIBRARY_PATH.
  std::vector<std::filesystem::path> here, library_folders;
  // Called before each file, in a wheel before each library, with the share of bytes done, 0 to 1.
  std::function<void(double done, const std::string& file)> progress;
};

struct Audit {
  std::string machine;              // the tree's own processor: "aarch64"; empty where that is not known
  std::optional<NamedGpu> gpu;      // the tree's own, the best of several
  std::vector<std::string> places;  // what was looked through
  std::vector<Library> libraries;   // known ones, and others with GPU code: by component, then path
  int64_t others = 0;               // shared libraries without either
  std::vector<std::string> notes;   // what could not be looked at
};

// Fails (user) where something that was named is not there. What cannot be read is a note, or a library's `trouble`.
Audit audit(const AuditOptions& options);

}  // namespace sparkpilot::stack

// The ML stack of a machine, an environment, or a folder: all its libraries, with the GPU code that each holds.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "stack/library.h"

namespace sparkpilot::stack {

struct AuditOptions {
  std::filesystem::path root = "/";  // another file tree: the paths below are then paths in it
  // Files, folders and wheels; Python environments. If both are empty, the system's library folders and the Python
  // environments in the usual places.
  std::vector<std::filesystem::path> paths, environments;
  // Further places: folders to search for environments, such as the current folder; and for libraries:
  // $LD_LIBRARY_PATH.
  std::vector<std::filesystem::path> here, library_folders;
  std::filesystem::path home = {};  // the user's, which need not be below /home; empty: unknown
  // Called before each file, in a wheel before each library, with the share of bytes done, 0 to 1.
  std::function<void(double done, const std::string& file)> progress;
};

struct Audit {
  std::string machine;              // the tree's own processor: "aarch64"; empty if unknown
  std::optional<NamedGpu> gpu;      // the tree's own, the best of several
  std::vector<std::string> places;  // the places searched
  std::vector<Library> libraries;   // known ones, and others with GPU code: by component, then path
  int64_t others = 0;               // shared libraries without either
  std::vector<std::string> notes;   // what could not be examined
};

// Fails (user) if a named path does not exist. What cannot be read gives a note, or a library's `trouble`.
Audit audit(const AuditOptions& options);

}  // namespace sparkpilot::stack

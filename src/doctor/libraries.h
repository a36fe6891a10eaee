// Where the loader would find a shared library, from the file tree only, so that it works for recorded machines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/versions.h"
#include "hw/source.h"

namespace sparkpilot::doctor {

struct FoundLibrary {
  std::string path = {};                // "/usr/lib/aarch64-linux-gnu/libcudnn.so.9"
  std::optional<Version> version = {};  // the most precise version in its names
};

// LD_LIBRARY_PATH, the folders in /etc/ld.so.conf, the system's folders, and /usr/local/cuda/lib64.
std::vector<std::string> library_folders(Source& source, const std::string& architecture);

// The library whose name begins with "`stem`.so." in the first of `folders` that has it.
std::optional<FoundLibrary> find_library(Source& source, const std::vector<std::string>& folders,
                                         const std::string& stem);

}  // namespace sparkpilot::doctor

// Files that come with the program: adapters of other engines, the small model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sparkpilot::cli {

// Where such a file or folder is looked for, such as "peers" or "models/demo_supercombo.onnx": in
// PREFIX/share/sparkpilot for a program PREFIX/bin/sparkpilot, and in the source tree for a program in its build
// folder. Nothing is known of whether it is there.
std::vector<std::filesystem::path> shipped(const std::string& name);

}  // namespace sparkpilot::cli

// `drive --demo`: the small model that comes with the program, on a road that is made for it. Needs no network.
#pragma once

#include <filesystem>
#include <string>

#include "cli/command.h"

namespace sparkpilot::cli {

inline constexpr const char* kDemoFolder = "sparkpilot-demo";  // where results go without --out

// The small model's file; fails (user) if it did not come with the program.
std::filesystem::path demo_model();

// Fails (user) if the folder holds anything that is not a demo's: nothing of its user's is replaced. It may be missing.
void check_demo_folder(const std::filesystem::path& out);

// The folder of the road's recording, for a demo in `out`.
std::filesystem::path demo_route(const std::filesystem::path& out);
// Makes that recording, with its truth; a complete one is kept.
void make_demo_route(const Program& program, const std::filesystem::path& out);

}  // namespace sparkpilot::cli

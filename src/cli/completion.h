// Completion of the program's commands, options and values, as a file for each shell.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace sparkpilot::cli {

inline const std::vector<std::string> kShells{"bash", "zsh", "fish"};

// For one of kShells: bash sources it (a file `sparkpilot` in share/bash-completion/completions), zsh finds it as
// `_sparkpilot` in its fpath, fish as `sparkpilot.fish` in vendor_completions.d. Fails (internal) for another shell.
std::string completion(const CommandHelp& program, const std::string& shell);

}  // namespace sparkpilot::cli

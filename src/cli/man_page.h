// Manual pages of the program and its commands, in the language of `man`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"

namespace sparkpilot::cli {

// The name of a command's page: "sparkpilot-model-info"; "sparkpilot" for the program's.
std::string page_name(const std::string& command);

// A page for the program and for each of its commands: its name and its text, of section 1.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandHelp& program, std::string_view version);

}  // namespace sparkpilot::cli

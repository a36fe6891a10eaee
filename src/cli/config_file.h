// The configuration file: TOML, one line for each setting (docs/configuration.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/settings.h"

namespace sparkpilot::cli {

struct ConfigFile {
  std::filesystem::path path = {};  // empty: there is no place for one
  std::string state = {};           // "read", "not there", "not used"
  std::vector<FileSetting> lines = {};
  std::vector<std::string> warnings = {};
};

// $XDG_CONFIG_HOME/sparkpilot/config.toml if that is an absolute path, else below ~/.config; empty without a home.
std::filesystem::path usual_config_file(const char* xdg_config_home, const char* home);

// $XDG_CACHE_HOME/sparkpilot/tuning.json in the same way, else below ~/.cache.
std::filesystem::path usual_tuning_file(const char* xdg_cache_home, const char* home);

// A text's settings; an unknown key is a warning. Fails (user) on what is not TOML, naming `path`, line and column.
ConfigFile parse_config(const std::string& text, const std::filesystem::path& path);

// The file's settings; none if it does not exist. If it is unreadable, too long or not TOML, that is a warning and the
// file is not used; if `is_explicit` (given by --config), all these are errors (user).
ConfigFile read_config_file(const std::filesystem::path& path, bool is_explicit);

}  // namespace sparkpilot::cli

// The configuration file: TOML, one line a setting (docs/configuration.md).
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

// $XDG_CONFIG_HOME/sparkpilot/config.toml where that is an absolute path, else beneath ~/.config; empty without a home.
std::filesystem::path usual_config_file(const char* xdg_config_home, const char* home);

// $XDG_CACHE_HOME/sparkpilot/tuning.json in the same way, else beneath ~/.cache.
std::filesystem::path usual_tuning_file(const char* xdg_cache_home, const char* home);

// What the file says. Not there: nothing. Unreadable, too long or no TOML: a warning, and nothing of it is used; where
// it is `explicit`, given by --config, these are errors (user). A key that is no setting is a warning.
ConfigFile read_config_file(const std::filesystem::path& path, bool is_explicit);

}  // namespace sparkpilot::cli

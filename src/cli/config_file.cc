#include "cli/config_file.h"

#include <toml++/toml.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargest = 1 << 20;

std::optional<std::string> text_of(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  return std::nullopt;
}

void parse(const std::string& text, ConfigFile& file) {
  std::vector<std::string> names;
  for (const Setting& setting : all_settings()) names.emplace_back(setting.name);
  for (const auto& [key, node] : toml::parse(text)) {
    const std::string name(key.str());
    const auto line = static_cast<int>(node.source().begin.line);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      file.warnings.push_back(fmt::format("{} line {}: no setting is named \"{}\"{}", file.path.string(), line,
                                          shown(name), did_you_mean(name, names)));
      continue;
    }
    file.lines.push_back({name, text_of(node), line});
  }
}

// By XDG's base directory specification: the variable's folder if it is absolute, else the default below the home
// folder.
fs::path usual_file(const char* xdg, const char* home, const char* beneath_home, const char* name) {
  const fs::path folder = xdg ? xdg : "";
  if (folder.is_absolute()) return folder / "sparkpilot" / name;
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / beneath_home / "sparkpilot" / name;
}

}  // namespace

fs::path usual_config_file(const char* xdg_config_home, const char* home) {
  return usual_file(xdg_config_home, home, ".config", "config.toml");
}

fs::path usual_tuning_file(const char* xdg_cache_home, const char* home) {
  return usual_file(xdg_cache_home, home, ".cache", "tuning.json");
}

ConfigFile read_config_file(const fs::path& path, bool is_explicit) {
  ConfigFile file{.path = path, .state = "not there"};
  std::error_code error;
  if (path.empty() || path == "/dev/null") return file;  // --config /dev/null: no file
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found && !is_explicit) return file;
  std::string trouble;
  try {
    parse(read_file(path, kLargest), file);
    file.state = "read";
    return file;
  } catch (const toml::parse_error& problem) {
    const auto& at = problem.source().begin;
    trouble = fmt::format("{} line {}, column {}: {}", path.string(), at.line, at.column, problem.description());
  } catch (const Error& problem) {
    trouble = problem.what();
  }
  if (is_explicit) fail("--config: {}", trouble);
  file.state = "not used";
  file.lines.clear();
  file.warnings = {one_line(trouble) + "; it is not used"};
  return file;
}

}  // namespace sparkpilot::cli

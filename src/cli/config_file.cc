#include "cli/config_file.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"

// The parser asserts of its input what it has not checked, such as that a key follows "[": then the text is not TOML.
namespace sparkpilot::cli {
struct NotToml {};
[[noreturn]] void refuse_toml();
void refuse_toml() { throw NotToml(); }
}  // namespace sparkpilot::cli
#undef NDEBUG  // with which it would go on
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : sparkpilot::cli::refuse_toml())
#include <toml++/toml.h>

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargest = 1 << 20;
constexpr int kMostDots = 64;  // of a line, outside of quotes: the parser calls itself for each part of a key

std::optional<std::string> text_of(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<int64_t>()) return std::to_string(*number);
  return std::nullopt;
}

// Where the text in quotes that begins at `at` ends; one of several lines may have two more quotes before its last
// three.
size_t end_of_quotes(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool lines = text.substr(at).starts_with(three);
  for (size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (lines ? text.substr(i).starts_with(three) : text[i] == quote || text[i] == '\n') {
      size_t end = i + (lines ? 3 : 1);
      while (lines && end < std::min(i + 5, text.size()) && text[end] == quote) ++end;
      return end;
    }
  }
  return text.size();
}

// A quote within a word begins no text.
bool begins_quotes(std::string_view text, size_t at) {
  constexpr std::string_view kBefore = " \t\r\n=[{,.";
  return (text[at] == '"' || text[at] == '\'') && (at == 0 || kBefore.find(text[at - 1]) != std::string_view::npos);
}

// TOML has other characters than ASCII in comments and in quotes only, and the parser's behaviour is undefined for some
// of them elsewhere, behind a line that ends in a backslash too. Fails (user) on those, and on them in texts of several
// lines, which no setting takes; and on long dotted keys.
void expect_names(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  int dots = 0;
  for (size_t i = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0, end = 0; i < text.size(); i = end) {
    end = i + 1;
    dots = text[i] == '\n' ? 0 : dots + (text[i] == '.' ? 1 : 0);
    if (dots > kMostDots) {
      fail("{} line {}: more than {} dots", file, 1 + std::ranges::count(text.substr(0, i), '\n'), kMostDots);
    }
    if (text[i] == '#') end = std::min(text.find('\n', i), text.size());
    else if (begins_quotes(text, i)) end = end_of_quotes(text, i);
    const std::string_view part = text.substr(i, end - i);
    const auto other = std::ranges::find_if(part, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    const bool one_line = part.size() > 1 && part.find('\n') == std::string_view::npos;
    if (other == part.end() || one_line) continue;
    const auto at = i + static_cast<size_t>(other - part.begin());
    const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
    fail("{} line {}: expected ASCII outside of comments and texts in quotes of one line", file, line);
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

ConfigFile parse_config(const std::string& text, const fs::path& path) {
  ConfigFile file{.path = path, .state = "read"};
  std::vector<std::string> names;
  for (const Setting& setting : all_settings()) names.emplace_back(setting.name);
  expect_names(text, path.string());
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& problem) {
    const auto& at = problem.source().begin;
    fail("{} line {}, column {}: {}", path.string(), at.line, at.column, problem.description());
  } catch (const NotToml&) {
    fail("{}: not TOML", path.string());
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto line = static_cast<int>(node.source().begin.line);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      file.warnings.push_back(fmt::format("{} line {}: no setting is named \"{}\"{}", path.string(), line, shown(name),
                                          did_you_mean(name, names)));
      continue;
    }
    file.lines.push_back({name, text_of(node), line});
  }
  return file;
}

ConfigFile read_config_file(const fs::path& path, bool is_explicit) {
  ConfigFile file{.path = path, .state = "not there"};
  std::error_code error;
  if (path.empty() || path == "/dev/null") return file;  // --config /dev/null: no file
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found && !is_explicit) return file;
  try {
    return parse_config(read_file(path, kLargest), path);
  } catch (const Error& problem) {
    if (is_explicit) fail("--config: {}", problem.what());
    file.state = "not used";
    file.warnings = {one_line(problem.what()) + "; it is not used"};
    return file;
  }
}

}  // namespace sparkpilot::cli

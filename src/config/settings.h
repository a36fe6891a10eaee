// What the user chose: every setting of the program in one table, and how flags, environment, configuration file and
// defaults become one value each.
//
// Nothing here reads the system: variables and the file's lines come in, values and warnings go out. A flag wins over
// the environment, that over the file, the file over the default; of several variables the first in the row wins.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot {

// An environment variable that sets a setting.
struct SettingVariable {
  std::string_view name;
  std::string_view values = {};  // for people: what may stand there and what it means; empty: the setting's own values
  // What a value stands for: a value of the setting, or an empty text where it says nothing. No answer: a wrong value.
  // Null: the setting's own values.
  std::optional<std::string> (*meaning)(std::string_view value) = nullptr;
};

struct Setting {
  std::string_view name;                              // also the key in the file
  std::string_view flag;                              // "--device"; empty where there is none
  std::string_view value_name;                        // "DIR", for help texts
  std::string_view values;                            // for people: "auto, cpu, cuda or cuda:N"
  std::string_view default_value;                     // may be empty
  std::string_view doc;                               // one line
  std::vector<std::string> words = {};                // values that are words
  bool (*accepts)(std::string_view value) = nullptr;  // what else may stand there; null: nothing
  std::vector<SettingVariable> variables = {};        // the strongest first
};

// Whether a value is one of the setting's own.
bool accepts(const Setting& setting, std::string_view value);

std::span<const Setting> all_settings();
// Fails (internal) on a name that is none.
const Setting& find_setting(std::string_view name);

// A line of the configuration file.
struct FileSetting {
  std::string name = {};                  // of a setting
  std::optional<std::string> value = {};  // empty: neither text nor a whole number, which no setting takes
  int line = 0;
};

struct SettingsInput {
  std::map<std::string, std::string, std::less<>> flags = {};        // by the setting's name
  std::map<std::string, std::string, std::less<>> environment = {};  // any bytes; an empty value is as if unset
  std::string file = {};                                             // the configuration file, for messages
  std::vector<FileSetting> lines = {};
  std::string home = {};  // what "~" at the beginning of a value in the file means
  // Why a value that the table allows cannot be had here and now; empty where it can. Null: everything can be had.
  std::function<std::string(const Setting& setting, const std::string& value)> refusal = {};
};

enum class Origin { none, file, environment, flag };  // none: the default holds
std::string_view name(Origin origin);

struct SettingValue {
  const Setting* setting = nullptr;
  std::string value = {};
  Origin origin = Origin::none;
  std::string from = {};                    // "default", "CUDA=1", "--device cpu", "FILE line 3"; one printable line
  std::vector<std::string> overruled = {};  // who wanted another value, in the same words
};

struct Settings {
  std::vector<SettingValue> values = {};  // in the table's order
  // One line for each value that could not be taken: who says it, what was expected, what holds instead.
  std::vector<std::string> warnings = {};
  // Fails (internal) on a name that is none.
  const SettingValue& operator[](std::string_view name) const;
};

// Fails (user) where a flag's value is wrong or cannot be had; elsewhere such a value is a warning, and the next in the
// order is taken.
Settings resolve_settings(const SettingsInput& input);

// A value as messages show it: printable, and not longer than a line.
std::string shown(std::string_view value);

}  // namespace sparkpilot

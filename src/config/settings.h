// What the user chose: every setting of the program in one table, and how flags, environment, configuration file and
// defaults become one value each.
//
// Nothing here reads the system: variables and the file's lines are inputs, values and warnings are results. A flag
// overrides the environment, the environment the file, the file the default; of several variables the first in the row
// wins.
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
  std::string_view values = {};  // for people: allowed values and their meaning; empty: the setting's own
  // The setting's value that a variable's value means, or an empty text if it has no effect; nullopt: a wrong value.
  // Null: the setting's own values.
  std::optional<std::string> (*meaning)(std::string_view value) = nullptr;
};

struct Setting {
  std::string_view name;                              // also the key in the file
  std::string_view flag;                              // "--device"; empty without one
  std::string_view value_name;                        // "DIR", for help texts
  std::string_view values;                            // for people: "auto, cpu, cuda or cuda:N"
  std::string_view default_value;                     // may be empty
  std::string_view doc;                               // one line
  std::vector<std::string> words = {};                // allowed words
  bool (*accepts)(std::string_view value) = nullptr;  // other allowed values; null: none
  std::vector<SettingVariable> variables = {};        // the strongest first
};

// Whether a value is allowed for the setting.
bool accepts(const Setting& setting, std::string_view value);

std::span<const Setting> all_settings();
// Fails (internal) on an unknown name.
const Setting& find_setting(std::string_view name);

// A line of the configuration file.
struct FileSetting {
  std::string name = {};                  // a setting's
  std::optional<std::string> value = {};  // empty: neither text nor a whole number, which no setting takes
  int line = 0;
};

struct Settings;

struct SettingsInput {
  std::map<std::string, std::string, std::less<>> flags = {};        // by setting name
  std::map<std::string, std::string, std::less<>> environment = {};  // any bytes; an empty value counts as unset
  std::string file = {};                                             // the configuration file, for messages
  std::vector<FileSetting> lines = {};
  std::string home = {};  // replaces "~" at the beginning of a value in the file
  // Why a value that the table allows is not available here; empty if it is. `before`: the settings of the rows above,
  // on which it may depend. Null: everything is available.
  std::function<std::string(const Setting& setting, const std::string& value, const Settings& before)> refusal = {};
};

enum class Origin { none, file, environment, flag };  // none: the default applies
std::string_view name(Origin origin);

struct SettingValue {
  const Setting* setting = nullptr;
  std::string value = {};
  Origin origin = Origin::none;
  std::string from = {};                    // "default", "CUDA=1", "--device cpu", "FILE line 3"; one printable line
  std::vector<std::string> overruled = {};  // sources of other values, in the same form
};

struct Settings {
  std::vector<SettingValue> values = {};  // in the table's order
  // One line for each value that was not used: its source, what was expected, the value used instead.
  std::vector<std::string> warnings = {};
  // Fails (internal) on an unknown name.
  const SettingValue& operator[](std::string_view name) const;
};

// Fails (user) if a flag's value is wrong or not available; from other sources such a value gives a warning, and the
// next in the order is used.
Settings resolve_settings(const SettingsInput& input);

// What was given instead of a value that a setting takes, for messages: quoted, with what may have been meant.
std::string wrong_value(const Setting& setting, std::string_view value);

// A value for messages: printable, at most one line.
std::string shown(std::string_view value);

}  // namespace sparkpilot

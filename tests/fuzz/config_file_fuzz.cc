// Any bytes as the configuration file: settings with values that they take, or an Error, never anything else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "cli/config_file.h"

using namespace sparkpilot;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cli::ConfigFile file;
  try {
    file = cli::parse_config({reinterpret_cast<const char*>(data), size}, "config.toml");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
    return 0;
  }
  for (const std::string& warning : file.warnings) {
    if (warning.find('\n') != std::string::npos) __builtin_trap();
  }
  // An Error here is a fault: wrong values are warnings.
  const Settings settings = resolve_settings({.file = "config.toml", .lines = file.lines, .home = "/home/me"});
  for (const SettingValue& value : settings.values) {
    if (value.origin == Origin::file && !accepts(*value.setting, value.value)) __builtin_trap();
  }
  return 0;
}

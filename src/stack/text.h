// Names and small texts: wildcards, package names, fields of metadata.
#pragma once

#include <string>
#include <string_view>

namespace sparkpilot::stack {

// Whether `text` matches `pattern`, in which `*` matches anything.
bool matches(std::string_view pattern, std::string_view text);

// A Python package's name as indexes compare it: small letters, dashes for `_` and `.`.
std::string package_name(std::string_view name);

// The value after "Name:" and blanks at the beginning of a line of `text`; empty if absent.
std::string field(std::string_view text, std::string_view name);

// The number of `#define NAME 12`; empty if it is not defined as a number.
std::string macro(std::string_view text, std::string_view name);

}  // namespace sparkpilot::stack

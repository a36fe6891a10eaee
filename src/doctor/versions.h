// Version numbers as drivers, libraries and file names write them.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::doctor {

// "9.13.0.50" as its numbers; at most six of them.
struct Version {
  std::vector<int> numbers = {};
  // Missing numbers count as 0: 12.8 equals 12.8.0.
  std::strong_ordering operator<=>(const Version& other) const;
  bool operator==(const Version& other) const { return (*this <=> other) == std::strong_ordering::equal; }
  std::string str() const;
};

// The version at the start of a text; empty if none stands there.
std::optional<Version> parse_version(std::string_view text);
// The version at the end of a library's file name: "libcudnn.so.9.13.0". Empty if absent.
std::optional<Version> version_of_file(std::string_view name);

}  // namespace sparkpilot::doctor

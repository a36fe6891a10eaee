// JSON as text. Both ways are compiled once, since a parser and a printer of their own would be half of what many files
// cost to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sparkpilot {

// Nothing of ours is nested deeper, and what prints or copies JSON recurses.
inline constexpr int kDeepestJson = 64;

// Empty if it is nested deeper than kDeepestJson. Throws nlohmann::json::exception if it is no JSON. Of members of one
// name the last one counts; `twice`, if given, receives the first name that an object has again.
std::optional<nlohmann::ordered_json> parse_bounded(std::string_view text, std::string* twice = nullptr);

// As parse_bounded(), but throws Error if it is nested deeper.
nlohmann::ordered_json parse_json(std::string_view text);

// Discarded (is_discarded(), and of no other type) if it is no JSON or nested deeper than kDeepestJson.
nlohmann::ordered_json parse_json_or_discard(std::string_view text);

// What the library says is wrong, in plain words: without its own name and number of the error.
std::string json_fault(const nlohmann::json::exception& error);

// In one line, or with the members of each level indented by `indent` more spaces. Bytes that are not UTF-8 become
// U+FFFD.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);
std::string json_text(const nlohmann::json& json, int indent = -1);

}  // namespace sparkpilot

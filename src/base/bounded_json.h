// JSON from others: nested no deeper than anything of ours, since what prints or copies it recurses.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sparkpilot {

inline constexpr int kDeepestJson = 64;

// Empty if it is nested deeper than kDeepestJson. Throws nlohmann::json::exception if it is no JSON.
inline std::optional<nlohmann::ordered_json> parse_bounded(const std::string& text) {
  bool deep = false;
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, [&](int depth, auto, const auto&) {
    deep |= depth > kDeepestJson;
    return !deep;
  });
  return deep ? std::nullopt : std::optional(std::move(json));
}

}  // namespace sparkpilot

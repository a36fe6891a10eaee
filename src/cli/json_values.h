// Values of JSON that may be missing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sparkpilot::cli {

inline nlohmann::ordered_json or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}
template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace sparkpilot::cli

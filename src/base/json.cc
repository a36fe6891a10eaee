#include "base/json.h"

#include "base/error.h"

namespace sparkpilot {
namespace {

nlohmann::ordered_json parse(std::string_view text, bool throws, bool& deep) {
  deep = false;
  return nlohmann::ordered_json::parse(
      text.begin(), text.end(),
      [&](int depth, auto, const auto&) {
        deep |= depth > kDeepestJson;
        return !deep;
      },
      throws);
}

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::optional<nlohmann::ordered_json> parse_bounded(std::string_view text) {
  bool deep = false;
  nlohmann::ordered_json json = parse(text, true, deep);
  return deep ? std::nullopt : std::optional(std::move(json));
}

nlohmann::ordered_json parse_json(std::string_view text) {
  std::optional<nlohmann::ordered_json> json = parse_bounded(text);
  if (!json) fail("its JSON is nested deeper than {} levels", kDeepestJson);
  return *std::move(json);
}

nlohmann::ordered_json parse_json_or_discard(std::string_view text) {
  bool deep = false;
  nlohmann::ordered_json json = parse(text, false, deep);
  return deep ? nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded) : json;
}

std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }

}  // namespace sparkpilot

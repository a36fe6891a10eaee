#include "base/json.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

// What the parser reads, put together in time that grows with its length alone: nlohmann's own handler looks through
// all members of an object for each of them and, with a callback, through a whole array at the end of each element.
class JsonBuilder {
 public:
  bool is_deep() const { return deep_; }
  const std::string& twice() const { return twice_; }
  Json take() { return std::move(root_); }

  // What nlohmann's parser calls.
  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // is not in JSON as text
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Open& object = open_.back();
    auto& members = object.json->get_ref<Json::object_t&>();
    const auto [place, is_new] = object.places.emplace(name, members.size());
    if (is_new) static_cast<Json::object_t::Container&>(members).emplace_back(std::move(name), nullptr);
    else if (twice_.empty()) twice_ = name;
    object.member = place->second;  // of two of one name the last one counts
    return true;
  }
  template <class Problem>
  bool parse_error(size_t, const std::string&, const Problem& problem) {
    throw problem;
  }

 private:
  struct Open {
    Json* json = nullptr;  // stays where it is while it is open: what it lies in does not grow
    size_t member = 0;     // of an object: whose value comes next
    std::unordered_map<std::string, size_t> places = {};
  };

  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Open& in = open_.back();
    if (in.json->is_array()) return in.json->get_ref<Json::array_t&>().emplace_back(std::move(value));
    Json& member = in.json->get_ref<Json::object_t&>().data()[in.member].second;
    return member = std::move(value);
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json empty) {
    if (open_.size() >= kDeepestJson) {
      deep_ = true;
      return false;
    }
    open_.push_back({&place(std::move(empty))});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Open> open_;
  bool deep_ = false;
  std::string twice_;  // the first name that an object has again
};

template <class Any>
std::string text_of(const Any& json, int indent) {
  const std::string text = json.dump(indent, ' ', false, Any::error_handler_t::replace);
  // JSON allows DEL and U+0080 to U+009F in texts as they are; a terminal would obey them.
  std::string out;
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t size = text[i] == '\n' ? 0 : control_at(text, i);
    if (size == 0) continue;
    out += text.substr(kept, i - kept) + fmt::format("\\u{:04x}", static_cast<unsigned char>(text[i + size - 1]));
    i += size - 1;
    kept = i + 1;
  }
  return kept == 0 ? text : out + text.substr(kept);
}

}  // namespace

std::optional<Json> parse_bounded(std::string_view text, std::string* twice) {
  JsonBuilder builder;
  Json::sax_parse(text.begin(), text.end(), &builder);
  if (twice) *twice = builder.twice();
  return builder.is_deep() ? std::nullopt : std::optional(builder.take());
}

Json parse_json(std::string_view text) {
  std::optional<Json> json = parse_bounded(text);
  if (!json) fail("its JSON is nested deeper than {} levels", kDeepestJson);
  return *std::move(json);
}

Json parse_json_or_discard(std::string_view text) {
  try {
    if (std::optional<Json> json = parse_bounded(text)) return *std::move(json);
  } catch (const Json::exception&) {
    // As below.
  }
  return Json(Json::value_t::discarded);
}

std::string json_fault(const nlohmann::json::exception& error) {
  const std::string_view text = error.what();
  const size_t end = text.starts_with("[json.exception.") ? text.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

std::string json_text(const Json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }

}  // namespace sparkpilot

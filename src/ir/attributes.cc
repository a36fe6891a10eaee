#include "ir/attributes.h"

#include <algorithm>
#include <array>

namespace sparkpilot {
namespace {

template <typename T>
const T* get(const Attributes& attrs, std::string_view key) {
  const Attribute* found = attrs.find(key);
  if (!found) return nullptr;
  const T* value = std::get_if<T>(found);
  if (!value) {
    fail("attribute {} is {}, expected {}", key, name(type_of(*found)),
         name(type_of(Attribute(std::in_place_type<T>))));
  }
  return value;
}

template <typename T>
const T& need(const Attributes& attrs, std::string_view key) {
  const T* value = get<T>(attrs, key);
  if (!value) fail("attribute {} is missing", key);
  return *value;
}

bool before(const std::pair<std::string, Attribute>& item, std::string_view key) { return item.first < key; }

}  // namespace

std::string_view name(AttrType type) {
  constexpr std::array<std::string_view, 8> names{"int",    "float",   "string", "ints",
                                                  "floats", "strings", "tensor", "graph"};
  return names[static_cast<size_t>(type)];
}

void Attributes::set(std::string_view key, Attribute value) {
  const auto at = std::lower_bound(items_.begin(), items_.end(), key, before);
  if (at != items_.end() && at->first == key) at->second = std::move(value);
  else items_.insert(at, {std::string(key), std::move(value)});
}

void Attributes::erase(std::string_view key) {
  std::erase_if(items_, [&](const auto& item) { return item.first == key; });
}

const Attribute* Attributes::find(std::string_view key) const {
  const auto at = std::lower_bound(items_.begin(), items_.end(), key, before);
  return at != items_.end() && at->first == key ? &at->second : nullptr;
}

void rewrite_bodies(Attributes& attrs, const std::function<bool(Graph&)>& change) {
  for (const auto& [key, value] : Attributes(attrs)) {
    const auto* body = std::get_if<std::shared_ptr<const Graph>>(&value);
    if (!body) continue;
    auto copy = std::make_shared<Graph>(**body);
    if (change(*copy)) attrs.set(key, std::shared_ptr<const Graph>(std::move(copy)));
  }
}

int64_t Attributes::integer(std::string_view key, int64_t fallback) const {
  const auto* v = get<int64_t>(*this, key);
  return v ? *v : fallback;
}
float Attributes::real(std::string_view key, float fallback) const {
  const auto* v = get<float>(*this, key);
  return v ? *v : fallback;
}
std::string Attributes::text(std::string_view key, std::string_view fallback) const {
  const auto* v = get<std::string>(*this, key);
  return v ? *v : std::string(fallback);
}
std::vector<int64_t> Attributes::integers(std::string_view key, std::vector<int64_t> fallback) const {
  const auto* v = get<std::vector<int64_t>>(*this, key);
  if (v) return *v;
  return fallback;
}
std::vector<float> Attributes::reals(std::string_view key, std::vector<float> fallback) const {
  const auto* v = get<std::vector<float>>(*this, key);
  if (v) return *v;
  return fallback;
}
std::vector<std::string> Attributes::texts(std::string_view key, std::vector<std::string> fallback) const {
  const auto* v = get<std::vector<std::string>>(*this, key);
  if (v) return *v;
  return fallback;
}
int64_t Attributes::integer(std::string_view key) const { return need<int64_t>(*this, key); }
const Tensor& Attributes::tensor(std::string_view key) const { return need<Tensor>(*this, key); }
const std::shared_ptr<const Graph>& Attributes::graph(std::string_view key) const {
  return need<std::shared_ptr<const Graph>>(*this, key);
}

}  // namespace sparkpilot

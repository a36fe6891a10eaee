// The attributes of a node: a small sorted map from name to a typed value.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace sparkpilot {

class Graph;

// Same order as Attribute's variant.
enum class AttrType { integer, real, text, integers, reals, texts, tensor, graph };
std::string_view name(AttrType type);

// A body (If, Loop, Scan) is shared and immutable; a rewrite replaces it by a changed copy.
using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor, std::shared_ptr<const Graph>>;
inline AttrType type_of(const Attribute& value) { return static_cast<AttrType>(value.index()); }

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> items) {
    for (const auto& [key, value] : items) set(key, value);
  }

  void set(std::string_view key, Attribute value);
  void erase(std::string_view key);
  const Attribute* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // The value, or the fallback where it is absent; fails (user) where it has another type.
  int64_t integer(std::string_view key, int64_t fallback) const;
  float real(std::string_view key, float fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  std::vector<int64_t> integers(std::string_view key, std::vector<int64_t> fallback = {}) const;
  std::vector<float> reals(std::string_view key, std::vector<float> fallback = {}) const;
  std::vector<std::string> texts(std::string_view key, std::vector<std::string> fallback = {}) const;
  // Fail (user) where absent.
  int64_t integer(std::string_view key) const;
  const Tensor& tensor(std::string_view key) const;
  const std::shared_ptr<const Graph>& graph(std::string_view key) const;

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  std::vector<std::pair<std::string, Attribute>> items_;  // sorted by key
};

}  // namespace sparkpilot

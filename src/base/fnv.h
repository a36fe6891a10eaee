// FNV-1a with 64 bits: a key that is the same on every machine and distinguishes a few hundred things. It does not
// protect against deliberate collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sparkpilot {

class Fnv {
 public:
  explicit constexpr Fnv(uint64_t seed = 0) : value_(0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u)) {}

  void bytes(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  }
  Fnv& text(std::string_view text) {
    bytes(text.data(), text.size());
    return *this;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

}  // namespace sparkpilot

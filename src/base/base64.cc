#include "base/base64.h"

#include <cstdint>

#include "base/error.h"

namespace sparkpilot {
namespace {
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kLine = 76;
}  // namespace

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string out;
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    const size_t given = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (k < given ? static_cast<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= given ? kDigits[(word >> (18 - 6 * k)) & 63] : '=';
    column += 4;
    if (column == kLine || i + 3 >= bytes.size()) {
      out += '\n';
      column = 0;
    }
  }
  return out;
}

std::vector<std::byte> decode_base64(std::string_view text) {
  std::vector<std::byte> out;
  uint32_t word = 0;
  int digits = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
    const size_t value = kDigits.find(c);
    if (c == '=') ++padding;
    else if (value == std::string_view::npos || padding > 0) fail("base64: character {:#04x}", static_cast<uint8_t>(c));
    word = word << 6 | (c == '=' ? 0 : static_cast<uint32_t>(value));
    if (++digits < 4) continue;
    if (padding > 2) fail("base64: {} padding characters", padding);
    for (int k = 0; k < 3 - padding; ++k) out.push_back(static_cast<std::byte>(word >> (16 - 8 * k) & 255));
    digits = 0;
  }
  if (digits != 0) fail("base64: cut short");
  return out;
}

}  // namespace sparkpilot

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace sparkpilot {

void throw_error(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  throw Error(kind, fmt::vformat(format, args));
}

namespace {

constexpr size_t kLongest = 2000, kKeptTail = 500;

// Length in bytes of the UTF-8 character at `at`; 0 if there is no valid one (RFC 3629: no overlong forms, no
// surrogates).
size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const uint8_t first = byte(at), second = byte(at + 1);
  const auto follows = [&](size_t i) { return (byte(at + i) & 0xc0) == 0x80; };
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.size() > kLongest && i >= kLongest - kKeptTail && i < text.size() - kKeptTail) {
      out += " ... ";
      i = text.size() - kKeptTail;
    }
    const size_t length = character_length(text, i);
    if (const size_t control = std::max<size_t>(control_at(text, i), length == 0 ? 1 : 0); control > 0) {
      out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i + control - 1]));
      i += control;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

}  // namespace sparkpilot

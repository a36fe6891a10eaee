// Parsers for files of the kernel, firmware and users. They accept any bytes, are bounded, and return empty for what
// they do not understand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/source.h"

namespace sparkpilot {

// Without leading and trailing spaces, line ends and NULs.
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);
bool contains(std::string_view text, std::string_view part);
// Takes the next line off the front of `text`; empty text has none.
std::optional<std::string_view> next_line(std::string_view& text);
// At most `most` words between spaces and tabs.
std::vector<std::string_view> words(std::string_view text, size_t most);
// The part after a path's last slash.
std::string_view base_name(std::string_view path);

// The whole text as an integer; base 16 may begin with "0x".
std::optional<int64_t> to_integer(std::string_view text, int base = 10);
// The value if it is within both bounds, else empty.
template <typename T>
std::optional<int> within(const std::optional<T>& value, int64_t least, int64_t most) {
  if (!value || *value < least || *value > most) return std::nullopt;
  return static_cast<int>(*value);
}

// The trimmed text if it is printable ASCII of at most 256 characters; else empty.
std::string plain(std::string_view text);
// The words of a file's only line, trimmed; empty if there are none.
std::optional<std::string> read_word(Source& source, const std::string& path);
// The decimal integer that a file holds; empty if it holds anything else.
std::optional<int64_t> read_integer(Source& source, const std::string& path);
// plain() of a file.
std::string read_plain(Source& source, const std::string& path);
std::string read_text(Source& source, const std::string& path, size_t limit = Source::kReadLimit);
bool exists(Source& source, const std::string& path);

// KEY=value, KEY="value" of files such as /etc/os-release; the last one wins. Empty if it is absent or not plain.
std::string setting(std::string_view text, std::string_view key);

// The processors in a list such as "0-3,8", ascending, each once, at most 4096 of them.
std::vector<int> to_processors(std::string_view list);

}  // namespace sparkpilot

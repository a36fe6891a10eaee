// Readers for what the kernel, firmware and users write into files. Any bytes: bounded, and what is not understood is
// empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/source.h"

namespace sparkpilot {

// Without the spaces, line ends and NULs around it.
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);
bool contains(std::string_view text, std::string_view part);
// Takes the next line off the front of `text`; empty text has none.
std::optional<std::string_view> next_line(std::string_view& text);
// At most `most` words between spaces and tabs.
std::vector<std::string_view> words(std::string_view text, size_t most);
// What stands after a path's last slash.
std::string_view base_name(std::string_view path);

// The whole text as an integer; base 16 may begin with "0x".
std::optional<int64_t> to_integer(std::string_view text, int base = 10);
// A value that lies within both bounds, else empty.
template <typename T>
std::optional<int> within(const std::optional<T>& value, int64_t least, int64_t most) {
  if (!value || *value < least || *value > most) return std::nullopt;
  return static_cast<int>(*value);
}

// Trimmed, where it is printable ASCII of at most 256 characters; else empty.
std::string plain(std::string_view text);
// The words of a file's only line, trimmed; empty where there are none.
std::optional<std::string> read_word(Source& source, const std::string& path);
// A file that holds one decimal integer; empty where it holds something else.
std::optional<int64_t> read_integer(Source& source, const std::string& path);
// plain() of a file.
std::string read_plain(Source& source, const std::string& path);
std::string read_text(Source& source, const std::string& path, size_t limit = Source::kReadLimit);
bool exists(Source& source, const std::string& path);

// KEY=value, KEY="value" of files such as /etc/os-release; the last one wins. Empty where it is absent or not plain.
std::string setting(std::string_view text, std::string_view key);

// "0-3,8" of processors, ascending, each once, at most 4096 of them.
std::vector<int> to_processors(std::string_view list);

}  // namespace sparkpilot

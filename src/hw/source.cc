#include "hw/source.h"

#include <algorithm>
#include <charconv>

namespace sparkpilot {

std::optional<std::string> read_word(Source& source, const std::string& path) {
  const std::optional<std::string> text = source.read(path, 4096);
  if (!text) return std::nullopt;
  constexpr std::string_view kAround(" \t\r\n\0", 5);
  const size_t begin = text->find_first_not_of(kAround);
  if (begin == std::string::npos) return std::nullopt;
  const size_t end = text->find_last_not_of(kAround);
  std::string word = text->substr(begin, end + 1 - begin);
  if (word.find('\n') != std::string::npos) return std::nullopt;
  return word;
}

std::optional<int64_t> read_integer(Source& source, const std::string& path) {
  const std::optional<std::string> word = read_word(source, path);
  if (!word) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), value);
  if (error != std::errc{} || end != word->data() + word->size()) return std::nullopt;
  return value;
}

}  // namespace sparkpilot

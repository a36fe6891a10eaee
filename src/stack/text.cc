#include "stack/text.h"

#include <algorithm>
#include <cctype>

namespace sparkpilot::stack {

bool matches(std::string_view pattern, std::string_view text) {
  // If the rest does not match, the last star is tried again with one more character; earlier stars need not be.
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string package_name(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) c = c == '_' || c == '.' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

std::string field(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(":")) {
      line.remove_prefix(name.size() + 1);
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front()))) line.remove_prefix(1);
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.remove_suffix(1);
      return std::string(line);
    }
    at = end + 1;
  }
  return {};
}

std::string macro(std::string_view text, std::string_view name) {
  const std::string define = "#define " + std::string(name) + " ";
  const size_t at = text.find(define);
  if (at == std::string_view::npos) return {};
  const size_t begin = text.find_first_not_of(' ', at + define.size());
  if (begin == std::string_view::npos) return {};
  const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  return std::string(text.substr(begin, end - begin));
}

}  // namespace sparkpilot::stack

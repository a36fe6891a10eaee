#include "doctor/versions.h"

#include <fmt/core.h>

#include <algorithm>

namespace sparkpilot::doctor {

std::strong_ordering Version::operator<=>(const Version& other) const {
  const size_t size = std::max(numbers.size(), other.numbers.size());
  for (size_t i = 0; i < size; ++i) {
    const int mine = i < numbers.size() ? numbers[i] : 0, theirs = i < other.numbers.size() ? other.numbers[i] : 0;
    if (mine != theirs) return mine <=> theirs;
  }
  return std::strong_ordering::equal;
}

std::string Version::str() const {
  std::string out;
  for (const int number : numbers) out += fmt::format("{}{}", out.empty() ? "" : ".", number);
  return out;
}

std::optional<Version> parse_version(std::string_view text) {
  Version version;
  size_t at = 0;
  while (version.numbers.size() < 6) {
    const size_t begin = at;
    int number = 0;
    for (; at < text.size() && at - begin < 8 && text[at] >= '0' && text[at] <= '9'; ++at)
      number = 10 * number + (text[at] - '0');
    if (at == begin) break;
    version.numbers.push_back(number);
    if (at >= text.size() || text[at] != '.') break;
    ++at;
  }
  if (version.numbers.empty()) return std::nullopt;
  return version;
}

std::optional<Version> version_of_file(std::string_view name) {
  const size_t so = name.rfind(".so.");
  return so == std::string_view::npos ? std::nullopt : parse_version(name.substr(so + 4));
}

}  // namespace sparkpilot::doctor

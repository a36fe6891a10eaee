#include "base/nearest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace sparkpilot {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

// Levenshtein distance, one row of the table at a time.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  size_t best = std::min<size_t>(2, word.size() / 2) + 1;  // two letters would be nearly all of a short word
  std::string_view nearest;
  for (const std::string& name : names) {
    const size_t longer = std::max(name.size(), word.size()), shorter = std::min(name.size(), word.size());
    if (longer - shorter >= best) continue;
    const size_t far = distance(word, name);
    if (far >= best) continue;
    best = far;
    nearest = name;
  }
  return nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
}

}  // namespace sparkpilot

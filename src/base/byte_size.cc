#include "base/byte_size.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"

namespace sparkpilot {

std::optional<int64_t> read_bytes(std::string_view text) {
  static const std::map<char, int64_t> units = {
      {'K', 1'000}, {'M', 1'000'000}, {'G', 1'000'000'000}, {'T', 1'000'000'000'000}};
  const auto last = [&] {
    return text.empty() ? '\0' : static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
  };
  if (last() == 'B') text.remove_suffix(1);
  const auto unit = units.find(last());
  if (unit != units.end()) text.remove_suffix(1);
  double count = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || stop != text.data() + text.size()) return {};
  const double bytes = count * static_cast<double>(unit == units.end() ? 1 : unit->second);
  if (!(bytes >= 1 && bytes <= 0x1p60)) return {};
  return std::llround(bytes);
}

int64_t parse_bytes(const std::string& text, const std::string& flag) {
  const std::optional<int64_t> bytes = read_bytes(text);
  if (!bytes) fail("{} {}: expected a size such as 500000, 40M or 0.5GB (K, M, G, T)", flag, text);
  return *bytes;
}

}  // namespace sparkpilot

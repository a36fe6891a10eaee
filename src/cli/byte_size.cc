#include "cli/byte_size.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"

namespace sparkpilot::cli {

int64_t parse_bytes(const std::string& text, const std::string& flag) {
  const std::map<char, int64_t> units = {
      {'K', 1'000}, {'M', 1'000'000}, {'G', 1'000'000'000}, {'T', 1'000'000'000'000}};
  const auto last = static_cast<unsigned char>(text.empty() ? '\0' : text.back());
  const auto unit = units.find(static_cast<char>(std::toupper(last)));
  const int64_t size = unit == units.end() ? 1 : unit->second;
  const std::string number = unit == units.end() ? text : text.substr(0, text.size() - 1);
  double count = 0;
  const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), count);
  const bool known = error == std::errc() && stop == number.data() + number.size();
  const double bytes = count * static_cast<double>(size);
  if (!known || !(bytes >= 1 && bytes <= 0x1p60)) {
    fail("{} {}: expected a size such as 500000, 40M or 0.5G (K, M, G, T)", flag, text);
  }
  return std::llround(bytes);
}

}  // namespace sparkpilot::cli

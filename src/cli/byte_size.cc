#include "cli/byte_size.h"

#include <map>

#include "base/error.h"
#include "cli/command.h"

namespace sparkpilot::cli {

int64_t parse_bytes(const std::string& text, const std::string& flag) {
  const std::map<char, int64_t> units = {
      {'K', 1'000}, {'M', 1'000'000}, {'G', 1'000'000'000}, {'T', 1'000'000'000'000}};
  const auto unit = units.find(text.empty() ? '\0' : text.back());
  const int64_t size = unit == units.end() ? 1 : unit->second;
  const int64_t count = parse_number(unit == units.end() ? text : text.substr(0, text.size() - 1), flag);
  if (count < 1 || count > (int64_t{1} << 60) / size) fail("{} {}: expected a size such as 20G", flag, text);
  return count * size;
}

}  // namespace sparkpilot::cli

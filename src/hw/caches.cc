#include "hw/caches.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "hw/parse_text.h"

namespace sparkpilot {
namespace {

constexpr int kMaxLevels = 4;

// "48K", "2M".
int64_t size_of(std::string_view text) {
  int64_t unit = 1;
  if (text.ends_with('K')) unit = 1 << 10;
  if (text.ends_with('M')) unit = 1 << 20;
  if (unit > 1) text.remove_suffix(1);
  return within(to_integer(text), 1, 1 << 30).value_or(0) * unit;
}

// Sizes by level, one per instance: a cache shared by several processors is one instance.
std::map<int, std::vector<int64_t>> instances(Source& source) {
  std::map<int, std::vector<int64_t>> out;
  std::set<std::pair<int, std::string>> seen;
  for (const int cpu : to_processors(read_text(source, "/sys/devices/system/cpu/online", 4096))) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache";
    for (const std::string& name : source.list(folder)) {
      if (!name.starts_with("index")) continue;
      const std::string index = folder + "/" + name + "/";
      const auto level = within(read_integer(source, index + "level"), 1, kMaxLevels);
      if (!level || read_plain(source, index + "type") == "Instruction") continue;
      const int64_t size = size_of(read_plain(source, index + "size"));
      if (size == 0) continue;
      std::string shared = read_plain(source, index + "shared_cpu_list");
      if (shared.empty()) shared = std::to_string(cpu);
      if (seen.emplace(*level, std::move(shared)).second) out[*level].push_back(size);
    }
  }
  return out;
}

}  // namespace

std::vector<int64_t> cache_bytes(Source& source, int threads) {
  const auto wanted = static_cast<size_t>(std::max(1, threads));
  std::vector<int64_t> out;
  for (auto& [level, sizes] : instances(source)) {
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    int64_t bytes = 0;
    for (size_t i = 0; i < std::min(wanted, sizes.size()); ++i) bytes += sizes[i];
    out.push_back(bytes);
  }
  if (out.empty()) {
    const auto each = static_cast<int64_t>(wanted);
    out = {each * (32 << 10), each * (1 << 20), 32 << 20};
  }
  return out;
}

}  // namespace sparkpilot

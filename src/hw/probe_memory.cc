#include <algorithm>

#include "hw/parse_text.h"
#include "hw/probe.h"

namespace sparkpilot {
namespace {

constexpr int64_t kMax = int64_t{1} << 50;  // bytes: a petabyte

// The value of an entry: "MemTotal:       127535084 kB" in bytes, "HugePages_Total:     512" unchanged.
std::optional<int64_t> entry(std::string_view meminfo, std::string_view key) {
  while (const auto line = next_line(meminfo)) {
    if (line->substr(0, key.size()) != key || line->substr(key.size(), 1) != ":") continue;
    const auto parts = words(line->substr(key.size() + 1), 2);
    const auto number = parts.empty() ? std::nullopt : to_integer(trim(parts[0]));
    if (!number || *number < 0) return std::nullopt;
    if (parts.size() == 1) return *number;
    return *number <= kMax / 1024 ? std::optional(*number * 1024) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<int64_t> at_most(std::optional<int64_t> value, std::optional<int64_t> limit) {
  return value && limit && *value <= *limit ? value : std::nullopt;
}

}  // namespace

Memory probe_memory(Source& source) {
  const std::string meminfo = read_text(source, "/proc/meminfo", 64 << 10);
  Memory memory;
  memory.total = entry(meminfo, "MemTotal");
  if (memory.total == 0) memory.total.reset();
  memory.free = at_most(entry(meminfo, "MemFree"), memory.total);
  memory.available = at_most(entry(meminfo, "MemAvailable"), memory.total);
  // Shared memory is counted as cached, but cannot be reclaimed.
  if (const auto cached = at_most(entry(meminfo, "Cached"), memory.total)) {
    const int64_t shared = at_most(entry(meminfo, "Shmem"), cached).value_or(0);
    memory.page_cache = at_most(*cached - shared + entry(meminfo, "Buffers").value_or(0), memory.total);
  }
  memory.swap_total = at_most(entry(meminfo, "SwapTotal"), kMax);
  memory.swap_free = at_most(entry(meminfo, "SwapFree"), memory.swap_total);
  memory.huge_page_size = at_most(entry(meminfo, "Hugepagesize"), memory.total);
  memory.huge_pages = at_most(entry(meminfo, "HugePages_Total"), kMax);
  memory.huge_pages_free = at_most(entry(meminfo, "HugePages_Free"), memory.huge_pages);
  const int64_t page = memory.huge_page_size.value_or(0);
  if (page > 0 && memory.huge_pages.value_or(0) > *memory.total / page) {  // more than the machine's memory
    memory.huge_pages.reset();
    memory.huge_pages_free.reset();
  }
  return memory;
}

std::optional<int64_t> Memory::allocatable() const {
  std::optional<int64_t> left;
  if (unified && huge_pages.value_or(0) > 0) {
    if (huge_pages_free && huge_page_size) left = *huge_pages_free * *huge_page_size;
  } else if (available) {
    left = *available + swap_free.value_or(0);
  }
  if (!left || !group_left) return left;
  return std::min(*left, *group_left);
}

}  // namespace sparkpilot

#include "hw/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "hw/parse_text.h"

namespace sparkpilot {
namespace {

namespace fs = std::filesystem;

// The number behind a word, such as that of "VmHWM:     12345 kB" in Linux's /proc/self/status.
std::optional<int64_t> number_behind(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    int64_t number = 0;
    if (word == key && in >> number) return number;
  }
  return std::nullopt;
}

std::optional<int64_t> status_bytes(const std::string& key) {
  const std::optional<int64_t> kib = number_behind("/proc/self/status", key);
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

void lower(std::optional<int64_t>& least, int64_t value) {
  value = std::max<int64_t>(value, 0);
  least = least ? std::min(*least, value) : value;
}

using Read = std::function<std::optional<std::string>(const std::string&)>;
constexpr int64_t kNoLimit = int64_t{1} << 50;  // a petabyte; version 1 writes the largest number

// A file of one number of bytes; "max" is none.
std::optional<int64_t> bytes_in(const Read& read, const fs::path& file) {
  const auto number = to_integer(trim(read(file.string()).value_or("")));
  return number && *number >= 0 && *number < kNoLimit ? number : std::nullopt;
}

// What is left of a control group's limit; the cache of files that it could drop counts as left.
void take_group(const Read& read, const fs::path& group, const char* limit, const char* used, const char* cache,
                std::optional<int64_t>& least) {
  const auto most = bytes_in(read, group / limit), now = bytes_in(read, group / used);
  if (!most || !now) return;
  const std::string statistics = read((group / "memory.stat").string()).value_or("");
  int64_t dropped = 0;
  for (std::string_view left = statistics; const auto line = next_line(left);) {
    const auto parts = words(*line, 2);
    if (parts.size() == 2 && parts[0] == cache) dropped = to_integer(trim(parts[1])).value_or(0);
  }
  lower(least, *most - *now + std::clamp<int64_t>(dropped, 0, *now));
}

}  // namespace

std::optional<int64_t> peak_memory_bytes() { return status_bytes("VmHWM:"); }

std::optional<int64_t> resident_memory_bytes() { return status_bytes("VmRSS:"); }

// A line "0::/user.slice" is version 2, "5:memory:/docker/..." version 1. A group's limit holds for those in it.
std::optional<int64_t> group_memory_left(const Read& read) {
  constexpr int kMostLines = 64, kDeepest = 32;
  std::optional<int64_t> least;
  const std::string groups = read("/proc/self/cgroup").value_or("0::/");
  std::string_view left = groups;
  for (int i = 0; i < kMostLines; ++i) {
    const auto line = next_line(left);
    if (!line) break;
    const size_t first = line->find(':'), second = line->find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line->substr(first + 1, second - first - 1);
    const bool newer = controllers.empty();
    if (!newer && controllers != "memory") continue;
    const fs::path top = newer ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    fs::path name = fs::path(line->substr(second + 1)).relative_path();
    for (int depth = 0; depth < kDeepest; ++depth, name = name.parent_path()) {
      if (newer) take_group(read, top / name, "memory.max", "memory.current", "inactive_file", least);
      else take_group(read, top / name, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", least);
      if (name.empty()) break;
    }
  }
  return least;
}

std::optional<int64_t> available_memory_bytes(const fs::path& root) {
  std::optional<int64_t> least;
  if (const auto kib = number_behind(root / "proc/meminfo", "MemAvailable:")) least = *kib * 1024;
  const auto group = group_memory_left([&](const std::string& path) -> std::optional<std::string> {
    std::ifstream in(root / fs::path(path).relative_path(), std::ios::binary);
    if (!in) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(in), {});
  });
  if (group) lower(least, *group);
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    // Of addresses, stacks and the allocator's arenas of each thread take more than of memory.
    constexpr int64_t kForThreads = int64_t{512} << 20;
    if (const auto now = status_bytes("VmSize:"))
      lower(least, static_cast<int64_t>(limit.rlim_cur) - *now - kForThreads);
  }
  return least;
}

bool reset_peak_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
  std::ofstream control("/proc/self/clear_refs");
  control << "5" << std::flush;
  return control.good();
}

std::optional<int64_t> PeakMemory::bytes() const {
  const std::optional<int64_t> peak = peak_memory_bytes();
  if (!known_ || !before_ || !peak) return {};
  return std::max<int64_t>(*peak - *before_ - others_, 0);
}

}  // namespace sparkpilot

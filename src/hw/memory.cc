#include "hw/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

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

// A file of one number; "max" is none.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t number = 0;
  if (in >> number) return number;
  return std::nullopt;
}

void lower(std::optional<int64_t>& least, int64_t value) {
  value = std::max<int64_t>(value, 0);
  least = least ? std::min(*least, value) : value;
}

// What is left of a control group's limit; the cache of files that it could drop counts as left.
void take_group(const fs::path& group, const char* limit, const char* used, const char* cache,
                std::optional<int64_t>& least) {
  const auto most = number_in(group / limit), now = number_in(group / used);
  if (!most || !now) return;
  lower(least, *most - *now + number_behind(group / "memory.stat", cache).value_or(0));
}

// A line "0::/user.slice" is version 2, "5:memory:/docker/..." version 1. A group's limit holds for those in it.
void take_groups(const fs::path& root, std::optional<int64_t>& least) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool newer = controllers.empty();
    if (!newer && controllers != "memory") continue;
    const fs::path top = root / (newer ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    for (fs::path name = fs::path(line.substr(second + 1)).relative_path();; name = name.parent_path()) {
      if (newer) take_group(top / name, "memory.max", "memory.current", "inactive_file", least);
      else take_group(top / name, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", least);
      if (name.empty()) break;
    }
  }
}

}  // namespace

std::optional<int64_t> peak_memory_bytes() { return status_bytes("VmHWM:"); }

std::optional<int64_t> resident_memory_bytes() { return status_bytes("VmRSS:"); }

std::optional<int64_t> available_memory_bytes(const fs::path& root) {
  std::optional<int64_t> least;
  if (const auto kib = number_behind(root / "proc/meminfo", "MemAvailable:")) least = *kib * 1024;
  take_groups(root, least);
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

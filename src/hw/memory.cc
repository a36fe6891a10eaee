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

#include "hw/control_groups.h"

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

}  // namespace

std::optional<int64_t> peak_memory_bytes() { return status_bytes("VmHWM:"); }

std::optional<int64_t> resident_memory_bytes() { return status_bytes("VmRSS:"); }

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

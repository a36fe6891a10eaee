#include "hw/memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace sparkpilot {
namespace {

// A line such as "VmHWM:     12345 kB" of Linux's /proc/self/status.
std::optional<int64_t> status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == key && status >> kib) return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> peak_memory_bytes() { return status_bytes("VmHWM:"); }

std::optional<int64_t> resident_memory_bytes() { return status_bytes("VmRSS:"); }

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

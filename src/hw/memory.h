// Memory of this process, as the system counts it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace sparkpilot {

// Largest number of resident bytes since the process began or since reset_peak_memory(). Empty if unknown.
std::optional<int64_t> peak_memory_bytes();

// Resident bytes now. Empty if unknown.
std::optional<int64_t> resident_memory_bytes();

// What this process can still take without making the machine swap, as far as its control groups (both versions) and
// RLIMIT_AS let it. Empty if unknown. `root`: where /proc and /sys are.
std::optional<int64_t> available_memory_bytes(const std::filesystem::path& root = "/");

// Returns the allocator's unused memory to the system, then restarts peak_memory_bytes(); false if the system does not
// allow it.
bool reset_peak_memory();

// What some work takes at most, measured from the construction on: begins with reset_peak_memory(). One at a time.
class PeakMemory {
 public:
  PeakMemory() : known_(reset_peak_memory()), before_(resident_memory_bytes()) {}
  // `bytes` that were allocated since belong to something else.
  void leave_out(int64_t bytes) { others_ += bytes; }
  // The peak until now minus what was resident before. Empty if unknown.
  std::optional<int64_t> bytes() const;

 private:
  bool known_;
  std::optional<int64_t> before_;
  int64_t others_ = 0;
};

}  // namespace sparkpilot

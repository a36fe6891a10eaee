// Memory of this process, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace sparkpilot {

// Largest number of resident bytes since the process began or since reset_peak_memory(). Empty if unknown.
std::optional<int64_t> peak_memory_bytes();

// Resident bytes now. Empty if unknown.
std::optional<int64_t> resident_memory_bytes();

// Returns the allocator's unused memory to the system, then restarts peak_memory_bytes(); false if the system does not
// allow it.
bool reset_peak_memory();

}  // namespace sparkpilot

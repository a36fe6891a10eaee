// Memory of this process, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>

namespace sparkpilot {

// Most resident bytes since the process began or since reset_peak_memory(). Empty where the system does not say.
std::optional<int64_t> peak_memory_bytes();

// Resident bytes now. Empty where the system does not say.
std::optional<int64_t> resident_memory_bytes();

// Gives the system back what the allocator holds unused, then lets peak_memory_bytes() count anew; false where the
// system does not allow it.
bool reset_peak_memory();

}  // namespace sparkpilot

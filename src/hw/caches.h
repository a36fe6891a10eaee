// How much the processor's caches hold.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/source.h"

namespace sparkpilot {

// The most bytes of data that each level of cache, the nearest first, can hold for so many threads on cores of their
// own: the largest caches of a level together, one a thread. What the source does not say is taken as 32 KiB a thread,
// 1 MiB a thread and 32 MiB.
std::vector<int64_t> cache_bytes(Source& source, int threads);

}  // namespace sparkpilot

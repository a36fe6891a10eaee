// The sizes of the processor's caches.
#pragma once

#include <cstdint>
#include <vector>

#include "hw/source.h"

namespace sparkpilot {

// The most bytes of data that each level of cache, the nearest first, can hold for `threads` threads on separate cores:
// the sum of the largest caches of a level, one per thread. If the source does not say, 32 KiB per thread, 1 MiB per
// thread and 32 MiB are assumed.
std::vector<int64_t> cache_bytes(Source& source, int threads);

}  // namespace sparkpilot

// Assigns buffers to places in one block of memory, given their lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparkpilot {

struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, both inclusive
  int64_t offset = 0;       // filled by place(); a multiple of kAlignment
};

// Sets the offsets so that buffers that are alive at the same step never overlap; returns the size of the block. Places
// the largest buffers first, each at the lowest free offset: for the chains of driving models within a few per cent of
// the largest live set. The time of that grows with the square of their number, so more than kMaxBySize buffers are
// placed in the order of their first steps instead, each in the smallest gap that fits.
inline constexpr size_t kMaxBySize = 4096;
int64_t place(std::vector<Lifetime>& buffers);

}  // namespace sparkpilot

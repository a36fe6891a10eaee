// Where in one block of memory each buffer lies, given when it is alive.
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

// Fills offsets so that buffers alive at the same step never overlap; returns the block's size. Largest first, each at
// the lowest place that is free: for the chains of driving models within a few per cent of the largest live set. That
// takes a time that grows with the square of their number, so more than kMostBySize are placed in the order of their
// first steps, each where it fits best.
inline constexpr size_t kMostBySize = 4096;
int64_t place(std::vector<Lifetime>& buffers);

}  // namespace sparkpilot

// Loops that move bytes and do almost nothing else.
#pragma once

#include <cstddef>
#include <span>

namespace sparkpilot {

// Goes once through `bytes` of memory, a multiple of 4,096 that begins on a multiple of 64. The contents are kept or
// overwritten with arbitrary values.
struct MoveLoop {
  bool only_reads = true;
  double moved = 1;  // bytes read and written, for each byte that it goes through
  void (*run)(std::byte* data, size_t bytes) = nullptr;
};

// With the widest registers that cpu_features() reports: reading in one stream, reading in four with prefetches (which
// is faster if data is far away), adding two arrays into a third, changing one in place.
std::span<const MoveLoop> move_loops();

}  // namespace sparkpilot

// Who read and wrote each byte last, and whether another access may follow: the checker's memory of memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/check.h"

namespace sparkpilot::emulator {

// One access: in which block and after how many barriers.
struct Stamp {
  uint32_t launch = 0, block = 0;  // launches count from 1
  uint32_t epoch = 0, warp_epoch = 0;
  uint32_t code = 0;
  int16_t thread = -1;
  bool write = false, atomic = false;
};

// The shadow of one piece of memory, a cell for each byte.
class Shadow {
 public:
  explicit Shadow(size_t bytes) : cells_(bytes) {}

  // Notes an access to `bytes` bytes at `offset`, which must lie inside. Returns an earlier access that it races with.
  std::optional<Stamp> note(size_t offset, size_t bytes, const Stamp& now);

 private:
  struct Cell {
    Stamp write;
    std::array<Stamp, 2> reads;  // the last two, of different threads
  };
  std::vector<Cell> cells_;
};

}  // namespace sparkpilot::emulator

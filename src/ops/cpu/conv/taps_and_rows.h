// Which instance of a function template serves so many taps and rows of a kernel: those whose sums fit the registers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sparkpilot {

inline constexpr int kMostTaps = 7, kMostRows = 5;

// How many rows of so many taps have their sums in registers, with four left for what is read.
constexpr int rows_at_once(int registers, int taps) { return std::clamp((registers - 4) / taps, 1, kMostRows); }

// What `pick` returns for these numbers of taps (at most kMostTaps) and rows (at most rows_at_once()), each a template
// argument: [] <int kTaps, int kRows>() { return function<kTaps, kRows>; }.
template <int kRegisters, int kTaps = 1, int kRows = 1, typename Pick>
auto pick_taps_and_rows(int64_t taps, int64_t rows, const Pick& pick) {
  if constexpr (kTaps < kMostTaps) {
    if (taps > kTaps) return pick_taps_and_rows<kRegisters, kTaps + 1, kRows>(taps, rows, pick);
  }
  if constexpr (kRows < rows_at_once(kRegisters, kTaps)) {
    if (rows > kRows) return pick_taps_and_rows<kRegisters, kTaps, kRows + 1>(kTaps, rows, pick);
  }
  return pick.template operator()<kTaps, kRows>();
}

}  // namespace sparkpilot

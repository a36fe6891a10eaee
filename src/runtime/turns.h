// Finds the fastest of several ways to do the same thing, on a machine that may be busy with other work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

namespace sparkpilot {

using Clock = std::function<int64_t()>;  // nanoseconds

struct Turns {
  int most = 15, least = 3;                               // turns of each way
  int64_t ns = std::numeric_limits<int64_t>::max();       // after this time, there are no more than `least` turns
  int64_t hard_ns = std::numeric_limits<int64_t>::max();  // after this time, there are no more turns at all
};

inline constexpr double kNoTime = std::numeric_limits<double>::infinity();

// Ways are numbered from 0. `first` is chosen unless another way is more than a twentieth faster by both the minimum
// and the median of its times. `time_ns(way)` returns the time of one run, kNoTime if it cannot be run. The ways run in
// turns, so that other load on the machine affects all of them; a way that is far slower is left out of later turns.
// Empty if there were fewer than `least` turns.
std::optional<size_t> fastest_in_turns(size_t ways, size_t first, const std::function<double(size_t way)>& time_ns,
                                       const Turns& turns, const Clock& clock);

}  // namespace sparkpilot

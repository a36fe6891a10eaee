// Which of several ways to do one thing is the fastest, on a machine that does other things meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

namespace sparkpilot {

using Clock = std::function<int64_t()>;  // nanoseconds

struct Turns {
  int most = 15, least = 3;                               // of each way
  int64_t ns = std::numeric_limits<int64_t>::max();       // after which there are no more than `least`
  int64_t hard_ns = std::numeric_limits<int64_t>::max();  // after which there are no more at all
};

inline constexpr double kNoTime = std::numeric_limits<double>::infinity();

// Ways are numbered from 0; `first` is the one that is taken unless another is more than a twentieth faster both by the
// least and by the median of its times. `time_ns(way)` says how long one run took, kNoTime where it cannot be run.
// They run in turns, so that whatever else the machine does meets all of them, and one that is far behind is left out
// of later turns. Empty where there were fewer than `least` turns.
std::optional<size_t> fastest_in_turns(size_t ways, size_t first, const std::function<double(size_t way)>& time_ns,
                                       const Turns& turns, const Clock& clock);

}  // namespace sparkpilot

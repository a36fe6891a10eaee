// How many threads run something fastest, found by trying.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace sparkpilot {

// 1, 2, 4 ... below `all`, and `all`.
std::vector<int> thread_choices(int all);

// Climbs through `choices` (ascending, not empty) while more threads are at least a twentieth faster, so that small
// work stays on one. `time_ns(threads)` works for a while with so many threads and says how long one run took. Two
// counts are compared in turns, three times each, by their medians: a count that another process holds up loses.
int fastest_threads(std::span<const int> choices, const std::function<double(int threads)>& time_ns);

}  // namespace sparkpilot

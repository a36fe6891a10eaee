// Finds the number of threads that is fastest, by trial.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace sparkpilot {

// 1, 2, 4 ... below `all`, and `all`.
std::vector<int> thread_choices(int all);

// Goes up `choices` (ascending, not empty) while more threads are at least a twentieth faster, so that small work stays
// on one thread. `time_ns(threads)` runs for a while on that many threads and returns the time of one run. Two counts
// are compared in alternation, three times each, by their medians, so that a count that another process delays loses.
int fastest_threads(std::span<const int> choices, const std::function<double(int threads)>& time_ns);

}  // namespace sparkpilot

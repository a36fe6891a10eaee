// The worst worlds of a comparison and those that newly failed, driven again by both runs, for its page: run.json says
// of most runs how.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/compare.h"
#include "sim/trace.h"

namespace sparkpilot::drive {
class Page;
}

namespace sparkpilot::sim {

inline constexpr size_t kDrawnPairs = 3;

struct DrivenPair {
  NamedPair pair;
  Trace a, b;
  bool lead = false, torque = true;        // there is a car ahead; both steer by torque
  std::optional<double> again_a, again_b;  // of the metric by which the pair was chosen
  std::string why_not = {};                // it cannot be driven again: there are no traces
};

// The first of comparison.worst, at most `most`. What a run had from files (a car, an algorithm, a course) is not
// looked for, and another version's worlds may be others: such pairs say so.
std::vector<DrivenPair> drive_worst(const Comparison& comparison, size_t most = kDrawnPairs);
// The same of comparison.newly_failed_names, without those that drive_worst() drives.
std::vector<DrivenPair> drive_newly_failed(const Comparison& comparison, size_t most = kDrawnPairs);

// Plots over time, A's beside B's.
void add_drives(drive::Page& page, const Comparison& comparison, std::span<const DrivenPair> driven);

}  // namespace sparkpilot::sim

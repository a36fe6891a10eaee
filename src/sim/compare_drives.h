// The worst worlds of a comparison and those that newly failed, driven again by both runs, for its page: run.json says
// of most runs how.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/compare.h"
#include "sim/scenario.h"
#include "sim/trace.h"
#include "sim/user_algorithm.h"

namespace sparkpilot::drive {
class Page;
}

namespace sparkpilot::sim {

inline constexpr size_t kDrawnPairs = 3;

// What runs had from files, to be found by what is in it: an algorithm by its MD5, a car and a course by the names that
// they have in a run, which hold hashes.
struct DriveFiles {
  std::vector<std::shared_ptr<const UserAlgorithm>> algorithms;
  std::vector<std::string> cars;  // paths
  std::vector<Scenario> courses;
};

// A world of one of the two runs, driven again.
struct DrivenWorld {
  Trace trace;                  // no rows where it cannot be driven
  std::optional<double> again;  // of the metric by which the pair was chosen
  std::string why_not = {};     // it cannot be driven, or why the algorithm failed in it
};
struct DrivenPair {
  NamedPair pair;
  DrivenWorld a, b;
  bool lead = false, torque = true;  // there is a car ahead; both steer by torque
};

// The first of comparison.worst, at most `most`. Another version's worlds may be others, and a file may be missing:
// such worlds say so.
std::vector<DrivenPair> drive_worst(const Comparison& comparison, const DriveFiles& files = {},
                                    size_t most = kDrawnPairs);
// The same of comparison.newly_failed_names, without those that drive_worst() drives.
std::vector<DrivenPair> drive_newly_failed(const Comparison& comparison, const DriveFiles& files = {},
                                           size_t most = kDrawnPairs);

// Plots over time, A's beside B's; one of them alone where the other cannot be driven.
void add_drives(drive::Page& page, const Comparison& comparison, std::span<const DrivenPair> driven);

}  // namespace sparkpilot::sim

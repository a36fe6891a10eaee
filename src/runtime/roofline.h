// How near a profile's nodes come to the machine's limits.
//
// A node's limit is the least time that it can take: that of its multiply-adds in the fastest unit for its numbers, or
// that of moving its bytes through a level of cache or memory, whichever is longer. It errs on the short side, so that
// a share above 1 means that a measurement was disturbed:
//   - all units and levels work at the same time;
//   - each level holds as much as fits, beginning with the nearest: of a node's activations, which the node before it
//     may have left there, and of the whole model's weights, since all of them are read before one is read again.
#pragma once

#include <string>

#include "hw/peak.h"
#include "sparkpilot/profile.h"

namespace sparkpilot {

struct NodeLimit {
  double ns = 0;        // of one call
  std::string by = {};  // the unit or level that decides: "avx512_bf16", "L2"
};
// `model_weight_bytes`: of all nodes of a run.
NodeLimit limit_of(const NodeProfile& node, double model_weight_bytes, const Peak& peak);

// The most bytes that a run goes through before it comes back to them: what decides whether memory has to be measured.
double working_set(const Profile& profile);

struct Roofline {
  double share = 0;     // of the whole run
  std::string by = {};  // what decides the largest part of its limit
};
// Fills roofline_share and roofline_limit of the nodes.
Roofline set_roofline(Profile& profile, const Peak& peak);

}  // namespace sparkpilot

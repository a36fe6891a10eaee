// How close the nodes of a profile come to the machine's limits.
//
// A node's limit is the least time that it can take: the time of its multiply-adds in the fastest unit for its element
// type, or the time of moving its bytes through a level of cache or memory, whichever is longer. The estimate is low
// rather than high, so a share above 1 means that a measurement was disturbed:
//   - all units and levels work at the same time;
//   - windows over padding, and keys that a causal mask or a window hides, take no time (NodeProfile::needed).
// Each level, from the nearest on, holds as much as fits: of the node's activations, which the node before it may have
// left there, and of the whole model's weights, since all of them are read before any is read again.
#pragma once

#include <string>

#include "hw/peak.h"
#include "sparkpilot/profile.h"

namespace sparkpilot {

struct NodeLimit {
  double ns = 0;        // of one call
  std::string by = {};  // the unit or level that sets the limit: "avx512_bf16", "L2"
};
// `model_weight_bytes`: the bytes of weights that all nodes of a run read.
NodeLimit limit_of(const NodeProfile& node, double model_weight_bytes, const Peak& peak);

// The most bytes that a run accesses before it accesses the first of them again; decides whether the memory's speed has
// to be measured.
double working_set(const Profile& profile);

struct Roofline {
  double share = 0;     // limit divided by measured time, for the whole run
  std::string by = {};  // the unit or level with the largest part of that limit
};
// Sets roofline_share and roofline_limit of the nodes.
Roofline set_roofline(Profile& profile, const Peak& peak);

}  // namespace sparkpilot

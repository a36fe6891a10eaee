// A rule of simplify_algebra(): sums of what lies in different places.
#pragma once

#include "passes/edit.h"

namespace sparkpilot {

// Adds of Pads that put zeros around, each in a range of one axis that the others leave zero, as one Concat: what the
// gradients of Slices of one value become. `id`: the last of the Adds.
bool concat_sum_of_pads(Edit& edit, NodeId id);

}  // namespace sparkpilot

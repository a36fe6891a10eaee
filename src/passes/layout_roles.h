// What each op can do with images whose channels are last (N, spatial, C instead of N, C, spatial).
#pragma once

#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// The permutations between the two layouts of images of this rank, as Transpose takes them.
std::vector<int> to_channels_last(int rank);
std::vector<int> to_channels_first(int rank);
// The index, with channels last, of the axis that has index `axis` with channels first.
int channels_last_axis(int axis, int rank);

struct LayoutRole {
  enum Kind {
    fixed,     // needs images with channels first
    free,      // works in either layout; its image outputs have the layout of its image inputs
    consumer,  // reads either layout; its output does not depend on it
    producer,  // its input does not depend on the layout; makes either
  } kind = fixed;
  // By input: whether it is an image in the node's layout; make_channels_last adapts the others.
  std::vector<bool> images;
  // Bytes moved inside the node in each layout.
  double first_cost = 0, last_cost = 0;
};
LayoutRole layout_role(Edit& edit, NodeId id);

// Whether the node flattens images to rows [N, C * spatial] that are read only by matrix products, each with constant
// weights that no other node uses: with channels last, the weights are reordered instead of the rows.
bool flattens_for_gemm(Edit& edit, NodeId id);

// Adds the channels-last form of the node, on `inputs` whose images have channels last already. Returns its outputs;
// they are images with channels last if the node is `free` or a `producer`.
std::vector<ValueId> make_channels_last(Edit& edit, NodeId id, std::vector<ValueId> inputs);

}  // namespace sparkpilot

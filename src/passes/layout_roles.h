// What each op can do with images whose channels come last (N, spatial, C instead of N, C, spatial).
#pragma once

#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// The permutations between the layouts of images of a rank, as Transpose takes them.
std::vector<int> to_channels_last(int rank);
std::vector<int> to_channels_first(int rank);
// Where an axis of an image with channels first lies when they are last.
int channels_last_axis(int axis, int rank);

struct LayoutRole {
  enum Kind {
    fixed,     // sees images with channels first only
    free,      // works in either layout; its image outputs have the layout of its image inputs
    consumer,  // reads either layout; its output does not depend on it
    producer,  // its input does not depend on the layout; makes either
  } kind = fixed;
  std::vector<bool> images;  // by input: an image in the node's layout; the others are adapted by make_channels_last
  // Bytes moved inside the node in each layout.
  double first_cost = 0, last_cost = 0;
};
LayoutRole layout_role(Edit& edit, NodeId id);

// Whether the node flattens images to rows [N, C * spatial] that only matrix products with constant weights of their
// own read: with channels last their weights are put in the other order instead of the rows.
bool flattens_for_gemm(Edit& edit, NodeId id);

// The node with channels last, on `inputs` whose images have them last already; its outputs, images with channels last
// where the node is `free` or a `producer`.
std::vector<ValueId> make_channels_last(Edit& edit, NodeId id, std::vector<ValueId> inputs);

}  // namespace sparkpilot

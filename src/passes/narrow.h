// How a selection of an op's output becomes selections of its inputs.
#pragma once

#include <optional>
#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// A range of `count` indices along one axis.
struct Pick {
  int axis = 0;
  int64_t start = 0, count = 0;
};

// What a node with one output must be given so that it computes only a selection of its output: by input, the selection
// of that input; absent: the whole input. The node is then made again with `attrs`.
struct Narrowed {
  std::vector<std::optional<Pick>> inputs;
  Attributes attrs;
  bool reshape = false;        // the node is a view: the result is a Reshape of input 0 instead
  bool through = false;        // the result is the only input that has a selection
  std::optional<Tensor> mask;  // replaces input 3 (attention)
  bool saves = false;          // the op does more than move elements or elementwise work, so narrowing it saves time
};

// Empty if the op needs its whole inputs, or the selection cannot be expressed as selections of them.
std::optional<Narrowed> narrow_node(Edit& edit, NodeId id, const Pick& pick);

// If an Attention has so few queries that computing keys and values is not worth it, makes it read the inputs of their
// projections instead; the weights are merged into the products before and after it (narrow_attention.cc). Returns
// whether it changed the graph.
bool attend_without_keys(Edit& edit, NodeId id);

}  // namespace sparkpilot

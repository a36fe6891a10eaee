// How a selection of an op's output becomes selections of its inputs.
#pragma once

#include <optional>
#include <vector>

#include "passes/edit.h"

namespace sparkpilot {

// `count` neighbours along one axis.
struct Pick {
  int axis = 0;
  int64_t start = 0, count = 0;
};

// What a node with one output must be given so that it computes only a selection: for each input the selection of it,
// or the whole (absent). The node is then made again with `attrs`.
struct Narrowed {
  std::vector<std::optional<Pick>> inputs;
  Attributes attrs;
  bool reshape = false;        // the node is a view: the result is a Reshape of input 0 instead
  bool through = false;        // the result is the one input that has a selection
  std::optional<Tensor> mask;  // takes the place of input 3 (attention)
  bool saves = false;          // the op is more than movement and elementwise work
};

// Empty where the op needs its inputs whole, or the selection cannot be followed through it.
std::optional<Narrowed> narrow_node(Edit& edit, NodeId id, const Pick& pick);

// An Attention of so few queries that keys and values are not worth computing reads what they are made of; their
// weights go into the products before and behind it (narrow_attention.cc). True where it did.
bool attend_without_keys(Edit& edit, NodeId id);

}  // namespace sparkpilot

// Making a graph sayable in one opset of ONNX. Private to the room.
#pragma once

#include <unordered_map>

#include "ir/graph.h"

namespace sparkpilot {

// Values whose uses become uses of others. They are kept aside, so that many cost one look at the graph; whoever goes
// on in the graph's order before apply() rewrites each node first.
class Replacements {
 public:
  void add(ValueId from, ValueId to) { to_[from.index] = to; }
  void apply(Node& node) const;
  void apply(Graph& graph) const;  // nodes, outputs, states

 private:
  ValueId now(ValueId value) const {
    const auto found = to_.find(value.index);
    return found == to_.end() ? value : found->second;
  }
  std::unordered_map<int32_t, ValueId> to_;
};

// Finds the opset to write and rewrites nodes that it has no word for, as older forms or as what they expand to:
// `wanted` where it is not 0 (fails (user) where a node cannot be said in it), else the graph's own where that can be,
// else the newest up to kNewestExportOpset in which every node is the same op, else kNewestExportOpset.
int lower_for_export(Graph& graph, int wanted);

}  // namespace sparkpilot

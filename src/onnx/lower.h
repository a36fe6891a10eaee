// Makes a graph expressible in one opset of ONNX. Private to the room.
#pragma once

#include <unordered_map>

#include "ir/graph.h"

namespace sparkpilot {

// Values whose uses become uses of others. They are collected, so that many of them cost one pass over the graph; a
// caller that visits more nodes before apply() must first rewrite each of them.
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

// Finds the opset to write and rewrites nodes that it lacks as older forms or as their expansions. The opset is
// `wanted` if that is not 0 (fails (user) if a node cannot be expressed in it), else the graph's own if possible, else
// the newest up to kNewestExportOpset in which every node is the same op, else kNewestExportOpset.
int lower_for_export(Graph& graph, int wanted);

}  // namespace sparkpilot

// Replaces the nodes that an exporter wrote for one op by that op.
#include "passes/recognise.h"

#include "ir/infer.h"
#include "passes/pass.h"

namespace sparkpilot {

int recognise_patterns(Graph& graph) {
  Edit edit(graph);
  constexpr bool (*kPatterns[])(Edit&, NodeId) = {recognise_activation, recognise_norm, recognise_norm_affine,
                                                  recognise_l2,         unstack_heads,  recognise_attention,
                                                  pack_attention};
  int changes = 0;
  for (int before = -1; before != changes;) {
    before = changes;
    for (const NodeId id : graph.order()) {
      for (const auto pattern : kPatterns) {
        if (graph.erased(id)) break;
        changes += pattern(edit, id);
      }
    }
  }
  graph.compact();
  return changes;
}

}  // namespace sparkpilot

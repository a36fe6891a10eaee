// Kernels that run one node as several others: a block that a pass has fused, computed node by node. Where the fused
// kernel does not pay, as timing may find on a processor that the pass was not measured on, such a kernel is taken
// instead, and nothing else changes.
#pragma once

#include "ir/op.h"

namespace sparkpilot {

// Prepares the nodes that `parts` makes of the node, with the kernels that the rules choose. What is between them is
// kept in the workspace. Inputs that are not constants must have constant shapes, and no part may have a body or be
// dynamic.
std::unique_ptr<KernelState> prepare_composed(const Problem& p, ExpandFn parts);
void run_composed(const Call& call);

// The kernel of that name for an op whose nodes `kParts` writes as several others.
template <ExpandFn kParts>
constexpr Kernel composed(std::string_view name, Acceptance (*accepts)(const Problem&) = nullptr) {
  return {.name = name,
          .accepts = accepts,
          .prepare = [](const Problem& p) { return prepare_composed(p, kParts); },
          .run = run_composed};
}

}  // namespace sparkpilot

// Internals of the session (sparkpilot/session.h): how its outputs are selected.
#pragma once

#include <span>
#include <string>

#include "ir/op.h"
#include "passes/pass.h"
#include "runtime/profile.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

// Parses each text, "NAME" or "NAME[:, -1, 3:7]" (NumPy's basic slicing without steps below 1, Ellipsis or newaxis),
// and makes these the graph's only outputs, in the given order, with Slice and Squeeze nodes where sliced. Outputs keep
// their names, except that several selections of one output are named by their texts ("NAME[:, 3:7]"). Fails (user) on
// an unknown name and on the same text twice.
//
// If openpilot's `output_slices` no longer fit, they are adjusted to the remaining range of the first output's last
// axis, or dropped. Returns a line that says so; empty if nothing changed.
std::string select_outputs(Graph& graph, std::span<const std::string> wanted);

}  // namespace sparkpilot

// The session (sparkpilot/session.h), and how its outputs are chosen.
#pragma once

#include <span>
#include <string>

#include "ir/op.h"
#include "passes/pass.h"
#include "runtime/profile.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

// Parses "NAME" or "NAME[:, -1, 3:7]" (NumPy's basic slicing without steps below 1, Ellipsis or newaxis), makes it the
// graph's only outputs in the given order, with Slice and Squeeze nodes where sliced. They keep their names, except
// that several selections of one output go by their own texts ("NAME[:, 3:7]"). Fails (user) on an unknown name and on
// the same text twice.
//
// Where openpilot's `output_slices` no longer fit they are moved with the range that is left of the first output's last
// axis, else dropped; returns a line that says so, empty where nothing changed.
std::string select_outputs(Graph& graph, std::span<const std::string> wanted);

}  // namespace sparkpilot

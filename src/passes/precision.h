// What each precision mode does: a rewrite of the graph.
#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace sparkpilot {

std::string_view name(Precision precision);
// "model", "fp32", "fp16", "bf16".
std::optional<Precision> parse_precision(std::string_view text);

// Fails (user) if this machine cannot compute in the mode.
void check_precision(Precision precision);

// Rewrites the graph for the mode. Graph inputs and outputs keep their dtypes, with a Cast at each; bodies of If, Loop
// and Scan are converted too. Shapes of inputs must be bound. Prefer run_passes() with PassOptions::precision, which
// runs the two steps at the right places in the order of passes: widening before patterns are recognised and constants
// are folded, narrowing after the fusions.
void set_precision(Graph& graph, Precision precision);

// The two steps: widening everything to f32, then rounding to what the mode stores in 16 bits. Both return the number
// of changes.
int widen_to_fp32(Graph& graph);
// For CPUs fp16 stores weights of products only; for GPUs also what products, norms and attention read and write, but
// for products of one row, which read and write f32 there (in bf16, too).
int narrow_from_fp32(Graph& graph, Precision precision, bool for_gpu = false);

}  // namespace sparkpilot

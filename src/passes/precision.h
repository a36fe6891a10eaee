// What a precision mode means: one rewrite of the graph.
#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace sparkpilot {

std::string_view name(Precision precision);
// "model", "fp32", "fp16", "bf16".
std::optional<Precision> parse_precision(std::string_view text);

// Fails (user) where this machine cannot compute in the mode.
void check_precision(Precision precision);

// Inputs and outputs of the graph keep their dtypes, with a Cast at the border; bodies of If, Loop and Scan are
// converted too. Shapes of inputs are bound. run_passes() with PassOptions::precision does the two steps at their
// places in the order of passes, which is better than calling this before it: widening comes before patterns are
// recognised and constants are folded, narrowing after the fusions.
void set_precision(Graph& graph, Precision precision);

// The steps: to f32 everywhere, from there to what the mode stores in 16 bits. Return the number of changes.
int widen_to_fp32(Graph& graph);
int narrow_from_fp32(Graph& graph, Precision precision);

}  // namespace sparkpilot

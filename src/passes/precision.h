// What each precision mode does: a rewrite of the graph.
#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace sparkpilot {

struct Target;

std::string_view name(Precision precision);
// "model", "fp32", "fp16", "bf16", "fp8", "fp4", "auto".
std::optional<Precision> parse_precision(std::string_view text);

// Whether the mode stores weights in less than 16 bits (passes/small_weights.h).
constexpr bool stores_small(Precision precision) { return precision == Precision::fp8 || precision == Precision::fp4; }

// What Precision::automatic is on a device: on a GPU fp16, the type that openpilot's own files store, on the CPU fp32.
// On "auto", a device that is not chosen yet, it stays. Every other precision stays everywhere.
Precision precision_on(std::string_view device, Precision precision);

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
// for products of one row, which read and write f32 there (in bf16, too). States keep their type.
// For GPUs fp8 and fp4 are as fp16, beside what they store in less; for CPUs they change nothing here.
//
// Of a graph for training (Target::training) these stay in f32: what an output is computed from since the last products
// before it, these included; products of states alone; what a state becomes; functions such as Exp, and sums and the
// like with an operand in f32. Products that a state becomes, the gradients of weights, read 16 bits and add up and
// return f32; on a GPU, on Arm, and of convolutions in groups, they stay in f32.
int narrow_from_fp32(Graph& graph, Precision precision, const Target& target);

}  // namespace sparkpilot

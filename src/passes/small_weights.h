// Weights of 8 and 4 bits in a graph (tensor/small_floats.h). A file holds them as constants behind DequantizeLinear;
// a precision mode writes them the same way, so both run alike:
//   E4M3   DequantizeLinear(codes, scales, axis = output channels)
//   NVFP4  DequantizeLinear(codes, DequantizeLinear(block scales, scale), axis = depth, block_size = 16)
// Products read them packed (sparkpilot::ScaledGemm); what else reads them gets them as floats, once. On a GPU they
// also read activations that were rounded to E4M3 as codes (read_codes() in passes/pass.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "passes/edit.h"

namespace sparkpilot {

// Operands of sparkpilot::ScaledGemm.
struct SmallWeights {
  ValueId codes, scale, block_scales;  // block_scales: absent in E4M3
};

// What a Gemm or MatMul reads as its weights, if that are constants in one of the two forms which ScaledGemm takes: two
// axes, a finite scale that is not tiny or huge for the tensor or for each column, no zero point but 0, no NaN. Empty
// for every other node.
std::optional<SmallWeights> small_weights(Edit& edit, NodeId product);

// Gives each reader of what DequantizeLinear makes of constants in 8 and 4 bits such a node of its own, so that the
// floats are in memory while it runs, and not from a product to its gradient. Returns the number of nodes added.
int decode_for_each_reader(Graph& graph);

// Whether all that reads a DequantizeLinear are such products, directly or as scales of blocks.
bool feeds_packed(Edit& edit, NodeId dequantize);

// The axes of a product's weights: output channels, and the depth that is summed over (Conv's other axes are, too).
struct WeightAxes {
  int channels, depth;
};
WeightAxes weight_axes(const Node& product, int rank);

enum class WeightFormat : uint8_t { f32, fp8, fp4 };

// The products whose weights a precision stores in less than 16 bits, and in which format: fp8 all of them in E4M3, fp4
// those of Gemm and MatMul in NVFP4 and those of convolutions in E4M3. Their weights are constants of f32, finite;
// heads (passes/makers.h) are none of them.
std::map<NodeId, WeightFormat> plan_small(Graph& graph, Precision precision);

// The convolutions and products whose constant weights of f32 are not finite, as words: "a", "b", "c" and 4 more. Empty
// if there are none.
std::string not_finite_weights(const Graph& graph);

// Stores the plan's weights so: adds DequantizeLinear before them. Where a product's weights are in E4M3 and `largest`
// has the largest magnitude of its input, by that value's name, the input is rounded to E4M3 with one scale, too:
// QuantizeLinear and DequantizeLinear. With `fp4_inputs` the same is done before products in NVFP4 by
// sparkpilot::RoundToNvfp4, which is no standard op. Returns the number of products changed. `compact` drops the f32
// weights, and values get other ids.
int store_small(Graph& graph, const std::map<NodeId, WeightFormat>& plan,
                const std::map<std::string, double>& largest = {}, bool compact = true, bool fp4_inputs = false);

}  // namespace sparkpilot

// Rewrites of a graph whose input shapes are bound, each with a name, in a fixed order.
//
// A pass never changes a result beyond the rounding of its dtype. Values whose shape depends on data have no shape
// here, and passes leave their nodes alone. After each pass the types of new values are inferred.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/op.h"
#include "passes/precision.h"

namespace sparkpilot {

// What a graph is optimised for.
struct Target {
  Device device = Device::cpu;
  bool training = false;  // it computes a loss, perhaps with its gradients: narrow_from_fp32 (passes/precision.h)
};

struct Pass {
  std::string_view name, doc;
  bool optional = true;             // false: the runtime needs it (expansion of old op versions)
  int (*run)(Graph& graph);         // number of rewrites made
  std::optional<Device> only = {};  // the device whose kernels it pays for; left out for other targets
};

// In the order they run.
std::span<const Pass> all_passes();

// The passes in two halves. Between them the graph still consists of ONNX ops: adapters and gradients are added there.
// Both check the names in `off` (user error, listing the known names).
//   prepare  expands old op versions, widens to f32 if the precision asks for it, folds constants, recognises patterns
//   lower    fuses, narrows, lays out and rounds for a target
void prepare(Graph& graph, const PassOptions& options = {}, const Target& target = {});
void lower(Graph& graph, const Target& target = {}, const PassOptions& options = {});

// Runs prepare(), then lower().
void run_passes(Graph& graph, const PassOptions& options = {}, const Target& target = {});
Graph optimised(Graph graph, const PassOptions& options = {}, const Target& target = {});

// --- single passes (unit tests call them directly)
int name_stateful(Graph& graph);       // unique names for nodes that keep a state (a part of expansion)
int expand_ops(Graph& graph);          // replaces ops without kernels by the simpler ops that define them
int fold_constants(Graph& graph);      // computes constant nodes and shapes; no constant larger than what it replaces
int share_common(Graph& graph);        // merges equal pure nodes on equal inputs
int drop_dead(Graph& graph);           // erases what no output or state needs
int simplify_algebra(Graph& graph);    // x*1, x+0, double Transpose, Reshape of Reshape, Cast to its own type
int merge_views(Graph& graph);         // its rules for Transpose and Reshape only, for passes that leave some behind
int recognise_patterns(Graph& graph);  // composes GELU, LayerNorm, attention and L2 normalisation from their parts
int fold_gain(Graph& graph);           // moves gains of norms and scales of attention into adjacent products
int narrow_outputs(Graph& graph);      // moves final Gather and Slice up: only what outputs need is computed
int fold_batch_norm(Graph& graph);     // moves a scale and shift next to a convolution or GEMM into its weights
int fuse_quantized(Graph& graph);      // computes in integers what is between DequantizeLinear and QuantizeLinear
int fuse_quantized_of_training(Graph& graph);  // the same for Target::training: weights of 8 and 4 bits stay packed
int fuse_epilogues(Graph& graph);      // bias, activation, residual, layer scale into the convolution or GEMM before
int read_coded_images(Graph& graph);   // convolutions read images and weights in E4M3 as codes
int read_codes(Graph& graph);          // products read activations that were rounded to E4M3 as codes
int attend_to_columns(Graph& graph);   // attention reads parts of one product in place
int keep_channels_last(Graph& graph);  // keeps chains of image ops in N, spatial, C
int read_planes(Graph& graph);         // lets first layers read images with channels first
int read_images(Graph& graph);         // lets a GPU's first layers round and find an image's elements themselves
int chain_convolutions(Graph& graph);  // makes expand, depthwise and project one node
int fuse_heads(Graph& graph);          // products of one row that do not need one another's results, in one node
int chain_elementwise(Graph& graph);   // makes elementwise ops that follow one another one node
int store_half(Graph& graph);          // 16-bit weights where that is exact, for products that read them only once

// fuse_epilogues() for a training on a GPU: products by weights of 8 and 4 bits read floats.
int fuse_epilogues_of_floats(Graph& graph);

// A part of folding: replaces an If with a constant condition by the branch that runs. Returns whether it did.
class Edit;
bool inline_branch(Edit& edit, NodeId id);

}  // namespace sparkpilot

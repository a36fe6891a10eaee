// Rewrites of a graph whose input shapes are bound, each with a name, in a fixed order.
//
// A pass never changes a result beyond the rounding of its dtype. Values whose shape depends on data have none here,
// and a pass leaves their nodes alone. After each pass the types of new values are inferred.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "ir/op.h"
#include "passes/precision.h"

namespace sparkpilot {

// What a graph is made ready for.
struct Target {
  Device device = Device::cpu;
};

struct Pass {
  std::string_view name, doc;
  bool optional = true;      // false: the runtime needs it (expansion of old op versions)
  int (*run)(Graph& graph);  // number of rewrites made
  bool for_cpu = false;      // it pays, by measurement, for the CPU's kernels, and is left out elsewhere
};

// In the order they run.
std::span<const Pass> all_passes();

// The passes in two halves, between which a graph is still made of ONNX's ops: adapters and gradients come there. Both
// check the names in `off` (user error, listing the known ones).
//   prepare  old forms expanded, widened to f32 where the precision asks for it, constants folded, patterns recognised
//   lower    what is fused, narrowed, laid out and rounded for a target
void prepare(Graph& graph, const PassOptions& options = {});
void lower(Graph& graph, const Target& target = {}, const PassOptions& options = {});

// One half behind the other.
void run_passes(Graph& graph, const PassOptions& options = {}, const Target& target = {});
Graph optimised(Graph graph, const PassOptions& options = {}, const Target& target = {});

// --- single passes (unit tests call them directly)
int name_stateful(Graph& graph);       // unique names for nodes that keep a state (a part of expansion)
int expand_ops(Graph& graph);          // ops without kernels become the simpler ops they are defined by
int fold_constants(Graph& graph);      // nodes on constants, and shapes; no constant larger than what it replaces
int share_common(Graph& graph);        // equal pure nodes on equal inputs are one
int drop_dead(Graph& graph);           // what no output or state needs
int simplify_algebra(Graph& graph);    // x*1, x+0, double Transpose, Reshape of Reshape, Cast to its own type
int merge_views(Graph& graph);         // the part of it that is about Transpose and Reshape, for passes that leave some
int recognise_patterns(Graph& graph);  // decomposed GELU, LayerNorm, attention, L2 normalisation
int fold_gain(Graph& graph);           // gains of norms and scales of attention into the products beside them
int narrow_outputs(Graph& graph);      // a Gather or Slice at the end is pushed up: what no output needs is not done
int fold_batch_norm(Graph& graph);     // scale and shift beside a convolution or GEMM into its weights
int fuse_quantized(Graph& graph);      // what stands between DequantizeLinear and QuantizeLinear, in integers
int fuse_epilogues(Graph& graph);      // bias, activation, residual, layer scale into convolution and GEMM
int attend_to_columns(Graph& graph);   // attention on parts of one product reads them there
int keep_channels_last(Graph& graph);  // chains of image ops in N, spatial, C
int read_planes(Graph& graph);         // first layers read images with channels first as they come
int chain_convolutions(Graph& graph);  // expand, depthwise and project as one node
int store_half(Graph& graph);          // weights that 16 bits hold exactly, for products that only read them once

// A part of folding: an If whose condition is a constant becomes the branch that runs; true where it did.
class Edit;
bool inline_branch(Edit& edit, NodeId id);

}  // namespace sparkpilot

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ir/infer.h"
#include "passes/pass.h"
#include "passes/precision.h"
#include "passes/small_weights.h"

namespace sparkpilot {
namespace {

constexpr Pass kPasses[] = {
    {"expand", "old op versions and composite ops as simpler ones", false, expand_ops},
    {"fold", "constant folding, shape arithmetic included", true, fold_constants},
    {"cse", "common subexpressions once", true, share_common},
    {"simplify", "x * 1, Transpose of Transpose, Reshape of Reshape and the like", true, simplify_algebra},
    {"recognise", "GELU, LayerNorm, attention and the like from the chains that exporters write", true,
     recognise_patterns},
    {"gain", "gains of norms and scales of attention into the weights beside them", true, fold_gain},
    {"narrow", "what a Slice or Gather drops is not computed", true, narrow_outputs},
    {"batch_norm", "scale and shift by channel into the weights beside them", true, fold_batch_norm},
    {"coded_images", "convolutions read images in E4M3 as codes", true, read_coded_images, Device::cuda},
    {"int8", "quantized convolutions, products and what stands between them in integers", true, fuse_quantized},
    {"fuse", "bias, activation, residual and scale into convolution and GEMM", true, fuse_epilogues},
    {"codes", "products read activations in E4M3 as codes, and round them to NVFP4 themselves", true, read_codes,
     Device::cuda},
    {"columns", "attention reads what a product put side by side", true, attend_to_columns},
    {"layout", "chains of image ops with channels last", true, keep_channels_last},
    {"planes", "first layers read images with channels first as they come", true, read_planes},
    {"images", "first layers round images and find their channels themselves", true, read_images, Device::cuda},
    {"chain", "inverted bottlenecks, and depthwise with pointwise, as one node", true, chain_convolutions, Device::cpu},
    {"heads", "products of one row that do not wait for one another as one node", true, fuse_heads, Device::cuda},
    {"elementwise", "elementwise ops that follow one another as one node", true, chain_elementwise},
    {"half", "weights of vector products in 16 bits where that loses nothing", true, store_half, Device::cpu},
    {"dce", "dead code", true, drop_dead},
};

// Name of the steps of a precision mode, as observers see it; storing weights in 8 and 4 bits has the precision's own.
constexpr std::string_view kPrecision = "precision";

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

namespace {

void check_names(const PassOptions& options) {
  for (const std::string& name : options.off) {
    bool known = name == "all";
    std::string names = "all";
    for (const Pass& pass : kPasses) {
      known |= pass.name == name && pass.optional;
      if (pass.optional) names += fmt::format(", {}", pass.name);
    }
    if (!known) fail("no optional pass is named \"{}\"; there are: {}", name, names);
  }
}

// In a training, weights of 8 and 4 bits stay so in memory. A GPU's products of f32 by packed ones decode them when
// they are loaded, so there a step decodes them, for the forward half, too.
int (*pass_for(const Pass& pass, const Target& target))(Graph&) {
  if (target.training && pass.run == fuse_quantized) return fuse_quantized_of_training;
  if (target.training && target.device == Device::cuda && pass.run == fuse_epilogues) return fuse_epilogues_of_floats;
  return pass.run;
}

void run(Graph& graph, std::span<const Pass> passes, const Target& target, const PassOptions& options) {
  const auto done = [&](std::string_view name, int changes) {
    if (changes) infer(graph);
    if (options.observe) options.observe(name, graph, changes);
  };
  const bool converts = options.precision != Precision::model;
  for (const Pass& pass : passes) {
    // Widened before constants are folded, stored in 8 and 4 bits before the fusions, narrowed to 16 bits after them.
    if (converts && pass.run == fold_constants) done(kPrecision, widen_to_fp32(graph));
    if (stores_small(options.precision) && pass.run == read_coded_images)
      done(name(options.precision),
           store_small(graph, plan_small(graph, options.precision), options.largest, true, true));
    if (converts && pass.run == keep_channels_last)
      done(kPrecision, narrow_from_fp32(graph, options.precision, target));
    if (pass.optional && (options.off.contains("all") || options.off.contains(std::string(pass.name)))) continue;
    if (pass.only && *pass.only != target.device) continue;
    // Weights are stored as the file has them, and values keep the contents that calibration saw under their names.
    if (pass.run == fold_gain && stores_small(options.precision)) continue;
    done(pass.name, pass_for(pass, target)(graph));
  }
}

// The first pass of the second half.
size_t first_of_lowering() {
  return static_cast<size_t>(
      std::find_if(std::begin(kPasses), std::end(kPasses), [](const Pass& pass) { return pass.run == fold_gain; }) -
      std::begin(kPasses));
}

}  // namespace

void prepare(Graph& graph, const PassOptions& options, const Target& target) {
  check_names(options);
  if (!options.emulate && target.device == Device::cpu) check_precision(options.precision);
  infer(graph);
  run(graph, all_passes().first(first_of_lowering()), target, options);
}

void lower(Graph& graph, const Target& target, const PassOptions& options) {
  check_names(options);
  infer(graph);
  run(graph, all_passes().subspan(first_of_lowering()), target, options);
}

void run_passes(Graph& graph, const PassOptions& options, const Target& target) {
  prepare(graph, options, target);
  lower(graph, target, options);
}

Graph optimised(Graph graph, const PassOptions& options, const Target& target) {
  run_passes(graph, options, target);
  return graph;
}

}  // namespace sparkpilot

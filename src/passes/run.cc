#include "base/error.h"
#include "ir/infer.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

constexpr Pass kPasses[] = {
    {"expand", "old op versions and composite ops as simpler ones", false, expand_ops},
    {"fold", "constant folding, shape arithmetic included", true, fold_constants},
    {"cse", "common subexpressions once", true, share_common},
    {"dce", "dead code", true, drop_dead},
};

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }

void run_passes(Graph& graph, const PassOptions& options) {
  for (const std::string& name : options.off) {
    bool known = name == "all";
    std::string names = "all";
    for (const Pass& pass : kPasses) {
      known |= pass.name == name && pass.optional;
      if (pass.optional) names += fmt::format(", {}", pass.name);
    }
    if (!known) fail("no optional pass is named \"{}\"; there are: {}", name, names);
  }
  infer(graph);
  for (const Pass& pass : kPasses) {
    if (pass.optional && (options.off.count("all") || options.off.count(std::string(pass.name)))) continue;
    const int changes = pass.run(graph);
    if (changes) infer(graph);
    if (options.observe) options.observe(pass.name, graph, changes);
  }
}

}  // namespace sparkpilot

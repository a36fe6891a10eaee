#include "bench/merge_check.h"

#include <algorithm>
#include <utility>

#include "adapters/apply.h"
#include "bench/inputs.h"
#include "ir/dimensions.h"
#include "passes/pass.h"
#include "runtime/session.h"
#include "tensor/difference.h"

namespace sparkpilot {
namespace {

constexpr int kSamples = 3;

Graph with_fixed_inputs(Graph graph) {
  bind_open_inputs(graph);
  return graph;
}

}  // namespace

bool MergedOutput::equal() const { return error <= std::max(1e-5, 1.5 * rounding); }

std::vector<MergedOutput> check_merge(const Graph& base, const Graph& merged, const Adapter& adapter, int threads,
                                      uint64_t seed) {
  const std::vector<Layer> layers = match_layers(base, adapter);
  Graph nodes = with_fixed_inputs(base);
  name_layers(nodes);
  prepare(nodes, {.precision = Precision::fp32});
  Graph exact = nodes;
  apply_adapter(nodes, adapter, layers);
  apply_merged(exact, adapter, layers);
  SessionOptions options{.threads = threads, .passes = {.precision = Precision::fp32}};
  options.tune = Tune::off;
  std::vector<Session> sessions;  // base, merged, nodes, exact
  for (Graph graph : {with_fixed_inputs(base), with_fixed_inputs(merged), std::move(nodes), std::move(exact)}) {
    sessions.emplace_back(std::move(graph), options);
  }
  std::vector<MergedOutput> out;
  for (const TensorInfo& output : sessions[0].outputs()) out.push_back({.name = output.name});
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    for (Session& session : sessions) {
      for (const TensorInfo& input : session.inputs())
        fill_random(session.input(input.name), input.name, seed + sample);
      session.run();
    }
    for (MergedOutput& one : out) {
      if (!is_float(sessions[1].output(one.name).dtype)) continue;
      const auto apart = [&](size_t from) {
        return difference_of(sessions[1].output(one.name), sessions[from].output(one.name)).relative_l2;
      };
      one.change = std::max(one.change, apart(0));
      one.error = std::max(one.error, apart(2));
      one.rounding = std::max(one.rounding, apart(3));
    }
  }
  return out;
}

}  // namespace sparkpilot

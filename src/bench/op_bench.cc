#include "bench/op_bench.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "ops/check.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

// The case as a graph: its fixed inputs are constants, the others inputs.
Graph graph_of(const OpDef& op, const OpCase& op_case, const std::vector<Tensor>& tensors) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].present()) inputs.emplace_back();
    else if (op_case.inputs[i].constant) inputs.push_back(graph.add_constant(tensors[i]));
    else inputs.push_back(graph.add_input(fmt::format("x{}", i), tensors[i].dtype(), tensors[i].shape()));
  }
  while (!inputs.empty() && !inputs.back().present()) inputs.pop_back();
  const NodeId node = graph.add_node(op, std::move(inputs), op_case.attrs, op_case.outputs, op_case.name);
  for (size_t i = 0; i < graph.node(node).outputs.size(); ++i) {
    graph.add_output(graph.node(node).outputs[i], fmt::format("y{}", i));
  }
  return graph;
}

// Median of runs in batches that are long enough for the clock.
double time_session(Session& session, double ms_each) {
  session.run();
  const int64_t start = now_ns();
  session.run();
  const double once_ns = std::max<double>(static_cast<double>(now_ns() - start), 100);
  const auto batch = std::max<int64_t>(1, static_cast<int64_t>(20e3 / once_ns));
  const auto batches = std::clamp<int64_t>(static_cast<int64_t>(ms_each * 1e6 / once_ns) / batch, 3, 1000);
  std::vector<double> us;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t begin = now_ns();
    for (int64_t i = 0; i < batch; ++i) session.run();
    us.push_back(static_cast<double>(now_ns() - begin) * 1e-3 / static_cast<double>(batch));
  }
  return summarize(us).p50;
}

}  // namespace

std::vector<OpBench> bench_op(const OpDef& op, int threads, double ms_each, uint64_t seed) {
  std::vector<OpBench> results;
  for (const OpCase& op_case : op.cases ? op.cases() : std::vector<OpCase>{}) {
    const std::vector<Tensor> tensors = case_inputs(op_case, seed);
    for (const Kernel& kernel : op.cpu) {
      SessionOptions options;
      options.threads = threads;
      options.kernel = std::string(kernel.name);
      options.passes.off = {"all"};
      Session session(graph_of(op, op_case, tensors), options);
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].present() && !op_case.inputs[i].constant) {
          session.set_input(fmt::format("x{}", i), tensors[i].view());
        }
      }
      const double us = time_session(session, ms_each);
      const Profile profile = session.profile();
      // The session takes another kernel where this one does not accept the case.
      if (profile.nodes.size() != 1 || profile.nodes[0].kernel != kernel.name) continue;
      results.push_back({qualified(op), op_case.name, std::string(kernel.name),
                         tensors.empty() || !tensors[0].present() ? "" : tensors[0].shape().str(), us,
                         profile.nodes[0].flops, profile.nodes[0].bytes});
    }
  }
  return results;
}

}  // namespace sparkpilot

// A model's gradients: forward, and forward with the gradient of every weight, in turns.
//
//   backward_bench MODEL [BATCH [THREADS [RUNS]]]
//
// The loss is the mean of all outputs; weights are the constants of convolutions and products. Prints the medians and
// what takes longest, by op and kernel. Inputs are random.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/statistics.h"
#include "bench/inputs.h"
#include "grad/differentiate.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "passes/rebatch.h"
#include "runtime/session.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace {

PassOptions widened() { return {.precision = Precision::fp32}; }

// Constants with more than one element that a convolution or product reads.
std::vector<ValueId> weights_of(const Graph& graph) {
  std::vector<ValueId> out;
  const auto uses = graph.uses();
  for (int i = 0; i < graph.value_count(); ++i) {
    const Tensor* const tensor = graph.constant(ValueId{i});
    if (!tensor || !is_float(tensor->dtype()) || tensor->elements() < 2) continue;
    const auto reads = [&](NodeId id) { return graph.node(id).op->traits.product; };
    if (std::ranges::any_of(uses[static_cast<size_t>(i)], reads)) out.push_back(ValueId{i});
  }
  return out;
}

Graph with_gradients(Graph graph, size_t* count) {
  Builder b(graph);
  const ValueId none;
  ValueId loss;
  for (const Graph::Output& output : std::vector<Graph::Output>(graph.outputs())) {
    const ValueId mean = b.add("ReduceMean", {output.value, none}, {{"keepdims", int64_t{0}}});
    loss = loss.present() ? b.add("Add", {loss, mean}) : mean;
  }
  const std::vector<ValueId> weights = weights_of(graph);
  *count = weights.size();
  std::vector<Graph::Output> outputs{{loss, "loss"}};
  const std::vector<ValueId> gradients = differentiate(graph, loss, weights);
  for (size_t i = 0; i < gradients.size(); ++i) outputs.push_back({gradients[i], fmt::format("gradient{}", i)});
  graph.replace_outputs(outputs);
  graph.compact();
  return graph;
}

double timed(Session& session) {
  const int64_t start = now_ns();
  session.run();
  return static_cast<double>(now_ns() - start) * 1e-6;
}

int bench(const std::string& file, int64_t batch, int threads, int runs) {
  Graph graph = rebatch(load_onnx(file), batch, widened());
  prepare(graph, widened());
  infer(graph);
  size_t count = 0;
  const SessionOptions options{.threads = threads, .tune = Tune::off, .passes = widened(), .profile = true};
  Session both(with_gradients(graph, &count), options), forward(std::move(graph), options);
  for (Session* const session : {&both, &forward}) {
    for (const TensorInfo& input : session->inputs()) fill_random(session->input(input.name), input.name, 1);
    session->run();
  }
  std::vector<double> ahead, back;
  for (int i = 0; i < runs; ++i) {
    ahead.push_back(timed(forward));
    back.push_back(timed(both));
  }
  fmt::print("{}, batch {}, {} threads, {} weights: forward {:.1f} ms, forward and backward {:.1f} ms, {:.0f} MB\n",
             file, batch, both.threads(), count, summarize(ahead).p50, summarize(back).p50,
             static_cast<double>(both.arena_bytes()) * 1e-6);
  std::map<std::string, double> by_kernel;
  for (const NodeProfile& node : both.profile().nodes)
    by_kernel[node.op + " " + node.kernel] += static_cast<double>(node.total_ns);
  std::vector<std::pair<double, std::string>> longest;
  for (const auto& [name, ns] : by_kernel) longest.emplace_back(-ns * 1e-6 / (runs + 1), name);
  std::ranges::sort(longest);
  for (size_t i = 0; i < std::min<size_t>(12, longest.size()); ++i) {
    fmt::print("{:10.2f} ms {}\n", -longest[i].first, longest[i].second);
  }
  return 0;
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    fmt::print(stderr, "usage: backward_bench MODEL [BATCH [THREADS [RUNS]]]\n");
    return 2;
  }
  try {
    const auto number = [&](int i, int fallback) { return argc > i ? std::atoi(argv[i]) : fallback; };
    return sparkpilot::bench(argv[1], number(2, 8), number(3, 2), number(4, 5));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

// The cost per node of reading, rewriting and compiling graphs of several sizes: it should not grow with the size.
//
//   build/graph_bench [--sizes 10000,50000,200000] [--only chain]
//
// Graphs are long or wide and compute next to nothing. Times are the minimum of --rounds, in microseconds per node; the
// last column is the largest size's time divided by the smallest one's.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "ir/op.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "runtime/session.h"

namespace sparkpilot {
namespace {

struct Net {
  Graph graph;
  Builder b{graph, "n", 21};

  Net() { graph.opsets[""] = 21; }
  ValueId input(const Shape& shape) { return graph.add_input("x", DType::f32, shape); }
  ValueId filled(const Shape& shape, float value) {
    return b.constant(Tensor::of<float>(shape, std::vector<float>(static_cast<size_t>(shape.elements()), value)));
  }
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attributes attrs = {}) {
    return b.add(name, std::move(inputs), std::move(attrs));
  }
  Graph done(ValueId y) {
    graph.add_output(y, "y");
    return std::move(graph);
  }
};

Graph chain(int nodes) {
  Net n;
  ValueId x = n.input(Shape{4});
  const ValueId half = n.filled(Shape{4}, 0.5f);
  for (int i = 0; i < nodes; i += 4) {
    x = n.op("Mul", {n.op("Sigmoid", {n.op("Add", {n.op("Relu", {x}), half})}), half});
  }
  return n.done(x);
}

// All nodes read the same value and constant, and all lead to one node.
Graph fan(int nodes) {
  Net n;
  const ValueId x = n.input(Shape{4}), half = n.filled(Shape{4}, 0.5f);
  std::vector<ValueId> ends;
  for (int i = 0; i < nodes; i += 2) {
    const ValueId own = n.filled(Shape{}, static_cast<float>(i));
    ends.push_back(n.op("Mul", {n.op("Add", {x, own}), half}));
  }
  return n.done(n.op("Concat", ends, {{"axis", int64_t{0}}}));
}

Graph many_outputs(int nodes) {
  Net n;
  const ValueId x = n.input(Shape{4});
  for (int i = 0; i < nodes; i += 2) {
    const ValueId own = n.filled(Shape{}, static_cast<float>(i));
    n.graph.add_output(n.op("Identity", {n.op("Add", {x, own})}), std::to_string(i));
  }
  return n.done(x);
}

// Convolutions that share their weights.
Graph convolutions(int nodes) {
  Net n;
  ValueId x = n.input(Shape{1, 2, 4, 4});
  const ValueId w = n.filled(Shape{2, 2, 3, 3}, 0.05f), bias = n.filled(Shape{2}, 0.1f);
  for (int i = 0; i < nodes; i += 2) {
    x = n.op("Relu", {n.op("Conv", {x, w, bias}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})});
  }
  return n.done(x);
}

// One convolution and everything that can be folded into it.
Graph scales(int nodes) {
  Net n;
  const ValueId w = n.filled(Shape{2, 2, 1, 1}, 0.05f), scale = n.filled(Shape{1, 2, 1, 1}, 1.001f);
  ValueId x = n.op("Conv", {n.input(Shape{1, 2, 4, 4}), w});
  for (int i = 0; i < nodes; i += 2) x = n.op("Add", {n.op("Mul", {x, scale}), scale});
  return n.done(x);
}

// Products, norms and activations with transposes and reshapes between them.
Graph layers(int nodes) {
  Net n;
  ValueId x = n.input(Shape{2, 4});
  const ValueId w = n.filled(Shape{4, 4}, 0.2f), gain = n.filled(Shape{4}, 1.1f);
  for (int i = 0; i < nodes; i += 6) {
    const ValueId y = n.op("Gelu", {n.op("Add", {n.op("MatMul", {x, w}), gain})});
    x = n.op("LayerNormalization", {n.op("Reshape", {n.op("Reshape", {y, n.b.ints({8})}), n.b.ints({2, 4})}), gain});
  }
  return n.done(x);
}

// Shape arithmetic, and nodes that can be rewritten only once its results are known.
Graph shapes(int nodes) {
  Net n;
  ValueId x = n.input(Shape{1, 2, 3, 1});
  const ValueId two = n.filled(Shape{2}, 1);
  const ValueId none = n.b.ints({-1});
  for (int i = 0; i < nodes; i += 5) {
    const ValueId size = n.op("Gather", {n.op("Shape", {x}), n.b.ints({0, 1, 2})});
    const ValueId y = n.op("Reshape", {x, n.op("Concat", {size, none}, {{"axis", int64_t{0}}})});
    x = n.op("BatchNormalization", {y, two, two, two, two});
  }
  return n.done(x);
}

// Nodes that passes remove and merge.
Graph idle(int nodes) {
  Net n;
  ValueId x = n.op("Relu", {n.input(Shape{2, 3})});
  const Attributes swap{{"perm", std::vector<int64_t>{1, 0}}};
  const ValueId one = n.filled(Shape{}, 1);
  for (int i = 0; i < nodes; i += 5) {
    x = n.op("Transpose", {n.op("Mul", {n.op("Identity", {x}), one})}, swap);
    x = n.op("Reshape", {n.op("Transpose", {x}, swap), n.b.ints({2, 3})});
  }
  return n.done(n.op("Relu", {x}));
}

// A growing list: Concat of Concat of Concat.
Graph concats(int nodes) {
  Net n;
  const ValueId x = n.input(Shape{0, 4});
  ValueId all = x;
  for (int i = 0; i < nodes; ++i) all = n.op("Concat", {all, x}, {{"axis", int64_t{0}}});
  return n.done(all);
}

Graph states(int nodes) {
  Net n;
  ValueId x = n.input(Shape{4});
  for (int i = 0; i < nodes; i += 2) {
    const ValueId state = n.graph.add_state(Tensor::zeros(DType::f32, Shape{4}), "s" + std::to_string(i));
    x = n.op("Relu", {n.op("Add", {x, state})});
    n.graph.set_next(state, x);
  }
  return n.done(x);
}

constexpr std::pair<const char*, Graph (*)(int)> kGraphs[] = {{"chain", chain},
                                                              {"fan", fan},
                                                              {"many_outputs", many_outputs},
                                                              {"convolutions", convolutions},
                                                              {"scales", scales},
                                                              {"layers", layers},
                                                              {"shapes", shapes},
                                                              {"idle", idle},
                                                              {"concats", concats},
                                                              {"states", states}};

// Processor time of all threads, on which other processes have little effect.
int64_t processor_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Microseconds per node for each step, in the order of the steps.
using Times = std::vector<std::pair<std::string, double>>;

class Stopwatch {
 public:
  explicit Stopwatch(int nodes) : nodes_(nodes) {}
  void lap(const std::string& step) {
    const int64_t now = processor_ns();
    times_.emplace_back(step, static_cast<double>(now - last_) * 1e-3 / nodes_);
    last_ = processor_ns();
  }
  Times times() const { return times_; }

 private:
  int nodes_;
  int64_t last_ = processor_ns();
  Times times_;
};

Times measure(Graph (*make)(int), int nodes, const std::filesystem::path& file) {
  Stopwatch watch(nodes);
  Graph graph = make(nodes);
  watch.lap("build");
  if (graph.states().empty()) {
    save_onnx(graph, file);
    watch.lap("export");
    graph = load_onnx(file);
    watch.lap("import");
  }
  {
    Graph rewritten = graph;
    PassOptions options;
    watch.lap("copy");
    options.observe = [&](std::string_view pass, const Graph&, int) { watch.lap("pass " + std::string(pass)); };
    run_passes(rewritten, options);
    watch.lap("free");
  }
  Session session(std::move(graph), {.threads = 1});
  session.compile();
  watch.lap("compile (passes again)");
  session.run();
  watch.lap("first run");
  return watch.times();
}

void print(const char* name, const std::vector<int>& sizes, const std::vector<Times>& by_size) {
  std::printf("\n%s\n%-24s", name, "us a node");
  for (const int size : sizes) std::printf(" %9d", size);
  std::printf("   last/first\n");
  for (size_t row = 0; row < by_size[0].size(); ++row) {
    std::printf("%-24s", by_size[0][row].first.c_str());
    for (const Times& times : by_size) std::printf(" %9.3f", times[row].second);
    std::printf("   %6.1f\n", by_size.back()[row].second / std::max(by_size.front()[row].second, 1e-3));
  }
}

void run(const std::vector<int>& sizes, const std::string& only, int rounds) {
  const auto file = std::filesystem::temp_directory_path() / ("graph_bench_" + std::to_string(now_ns()) + ".onnx");
  for (const auto& [name, make] : kGraphs) {
    if (!only.empty() && only != name) continue;
    std::vector<Times> by_size;
    for (const int size : sizes) {
      Times least = measure(make, size, file);
      for (int round = 1; round < rounds; ++round) {
        const Times again = measure(make, size, file);
        for (size_t i = 0; i < least.size(); ++i) least[i].second = std::min(least[i].second, again[i].second);
      }
      by_size.push_back(least);
    }
    print(name, sizes, by_size);
    std::fflush(stdout);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  CLI::App app("what a graph costs a node, by its size");
  std::vector<int> sizes{10000, 50000, 200000};
  std::string only;
  int rounds = 1;
  app.add_option("--sizes", sizes, "numbers of nodes")->delimiter(',');
  app.add_option("--only", only, "one of the graphs");
  app.add_option("--rounds", rounds, "measure that often and print the least");
  CLI11_PARSE(app, argc, argv);
  try {
    sparkpilot::run(sizes, only, rounds);
    return 0;
  } catch (const sparkpilot::Error& error) {
    std::fprintf(stderr, "graph_bench: %s\n", error.what());
    return 2;
  }
}

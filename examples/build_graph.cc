// A graph made by hand: a layer with a memory, run by a session and written as an ONNX file.
//
//   build/build_graph [FILE.onnx]
//
//   h' = tanh(x A + h B + bias)      y = h' C
//
// In the session's graph h is a state: the session carries it from run to run. ONNX has no states, so in the file h is
// an input and h' an output, and whoever runs the file hands one to the other. Both must say the same.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparkpilot/builder.h"
#include "sparkpilot/error.h"
#include "sparkpilot/onnx.h"
#include "sparkpilot/session.h"

namespace sparkpilot {
namespace {

constexpr int64_t kInputs = 3, kUnits = 8, kOutputs = 2;
constexpr int kRuns = 5;

// Weights that are the same on every machine.
Tensor weights(const Shape& shape, int seed) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>((i * 7 + static_cast<size_t>(seed) * 5) % 17) - 8) / 16.0f;
  }
  return Tensor::of<float>(shape, values);
}

struct Step {
  ValueId memory, y;
};

// One step of the layer on the values x and h.
Step add_step(Builder& b, ValueId x, ValueId h) {
  const ValueId from_x = b.add("MatMul", {x, b.constant(weights({kInputs, kUnits}, 1), "A")}, {}, "from_x");
  const ValueId from_h = b.add("MatMul", {h, b.constant(weights({kUnits, kUnits}, 2), "B")}, {}, "from_h");
  const ValueId sum = b.add("Add", {b.add("Add", {from_x, from_h}), b.constant(weights({kUnits}, 3), "bias")});
  const ValueId memory = b.add("Tanh", {sum}, {}, "memory");
  return {memory, b.add("MatMul", {memory, b.constant(weights({kUnits, kOutputs}, 4), "C")}, {}, "head")};
}

Graph with_state() {
  Graph graph;
  Builder b(graph, "layer");
  const ValueId x = b.input("x", DType::f32, {1, kInputs});
  const ValueId h = b.state(Tensor::zeros(DType::f32, {1, kUnits}), "h");
  const Step step = add_step(b, x, h);
  b.next(h, step.memory);
  b.output(step.y, "y");
  return graph;
}

Graph for_a_file() {
  Graph graph;
  Builder b(graph, "layer");
  const ValueId x = b.input("x", DType::f32, {1, kInputs});
  const ValueId h = b.input("h", DType::f32, {1, kUnits});
  const Step step = add_step(b, x, h);
  b.output(step.y, "y");
  b.output(step.memory, "next_h");
  return graph;
}

void fill(std::span<float> x, int run) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(run + 1) * static_cast<float>(i + 1));
}

// The largest difference between the two over a few runs.
float difference(Session& own, Session& file) {
  float largest = 0;
  for (int run = 0; run < kRuns; ++run) {
    fill(own.input<float>("x"), run);
    fill(file.input<float>("x"), run);
    own.run();
    file.run();
    const std::span<const float> y = own.output<float>("y"), again = file.output<float>("y");
    for (size_t i = 0; i < y.size(); ++i) largest = std::max(largest, std::abs(y[i] - again[i]));
    const std::span<const float> next = file.output<float>("next_h");
    std::copy(next.begin(), next.end(), file.input<float>("h").begin());
    std::printf("run %d   y = %8.5f %8.5f\n", run + 1, static_cast<double>(y[0]), static_cast<double>(y[1]));
  }
  return largest;
}

int build_and_run(const std::filesystem::path& path) {
  Session own(with_state(), {.threads = 1});
  const int opset = save_onnx(for_a_file(), path);
  Session file(load_onnx(path), {.threads = 1});
  std::printf("%s: opset %d\n", path.string().c_str(), opset);
  const float apart = difference(own, file);
  std::printf("the session's state and the file's inputs and outputs are at most %g apart\n",
              static_cast<double>(apart));
  if (!(apart <= 1e-6f)) return 1;

  // A mistake is told when it is made, with the op, the node and what was expected; the graph stays as it was.
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {1, kInputs});
  try {
    b.add("MatMul", {x, b.constant(weights({kUnits, kUnits}, 2))}, {}, "wrong");
  } catch (const Error& error) {
    std::printf("refused: %s\n", error.what());
    return 0;
  }
  return 1;  // it was not refused
}

}  // namespace
}  // namespace sparkpilot

int main(int argc, char** argv) {
  try {
    return sparkpilot::build_and_run(argc > 1 ? argv[1] : "layer.onnx");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "build_graph: %s\n", error.what());
    return 2;
  }
}

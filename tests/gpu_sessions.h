// Shared by tests of sessions on the emulated GPU: small graphs and their inputs.
#pragma once

#include <cmath>

#include "gpu_main.h"
#include "ops/cuda/images.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/session.h"

namespace sparkpilot {

class GpuSession : public GpuTest {};

inline constexpr int64_t kRows = 3, kSize = 50;

// y = softmax(x); with `in_between`, an op that no GPU has a kernel for stands between two of them.
inline Graph softmax_graph(bool in_between) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{kRows, kSize});
  Builder b(graph);
  ValueId y = b.add("Softmax", {x});
  if (in_between) y = b.add("Softmax", {b.add("Hardmax", {y})});
  graph.add_output(y, "y");
  return graph;
}

inline std::vector<float> numbers(float first) {
  std::vector<float> out(kRows * kSize);
  for (size_t i = 0; i < out.size(); ++i) out[i] = 3 * std::sin(first + static_cast<float>(i));
  return out;
}

inline std::vector<float> run(Session& session, const std::vector<float>& x) {
  std::ranges::copy(x, session.input<float>("x").begin());
  session.run();
  const auto y = session.output<float>("y");
  return {y.begin(), y.end()};
}

inline void expect_near(const std::vector<float>& y, const std::vector<float>& expected) {
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 1e-6f) << i;
}

// sum += softmax(x), last = softmax(x), fixed stays; y = sum + fixed, z = last.
inline Graph accumulating_graph() {
  Graph graph;
  const Shape shape{kRows, kSize};
  const ValueId x = graph.add_input("x", DType::f32, shape), unused = graph.add_input("w", DType::f32, shape);
  const ValueId sum = graph.add_state(Tensor::zeros(DType::f32, shape), "sum"),
                last = graph.add_state(Tensor::zeros(DType::f32, shape), "last"),
                fixed = graph.add_state(Tensor::zeros(DType::f32, shape), "fixed");
  Builder b(graph);
  const ValueId soft = b.add("Softmax", {b.add("Add", {x, unused})});
  const ValueId next = b.add("Add", {sum, soft});
  graph.add_output(b.add("Add", {next, fixed}), "y");
  graph.add_output(b.add("Mul", {last, last}), "z");
  graph.set_next(sum, next);
  graph.set_next(last, soft);
  graph.set_next(fixed, fixed);
  return graph;
}

}  // namespace sparkpilot

#include "grad/differentiate.h"

#include <gtest/gtest.h>

#include "ir/interpret.h"
#include "ir/op.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/error.h"

namespace sparkpilot {
namespace {

template <typename T>
std::vector<T> elements(const Tensor& tensor) {
  const std::span<const T> all = tensor.data<T>();
  return {all.begin(), all.end()};
}

TEST(Differentiate, RoundsAsTheCastBackDoes) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {3}), half = b.add("Cast", {x}, {{"to", onnx_code(DType::f16)}});
  const ValueId loss =
      b.add("ReduceSum", {b.add("Mul", {half, b.constant(Tensor::of<Half>({3}, {Half(2), Half(3), Half(4)}))})},
            {{"keepdims", int64_t{0}}});
  const std::vector<ValueId> gradients = differentiate(graph, loss, std::vector{x});
  graph.add_output(gradients[0], "dx");
  const Tensor at = Tensor::of<float>({3}, {1, 2, 3});
  EXPECT_EQ(elements<float>(interpret(graph, std::vector{at})[0]), (std::vector<float>{2, 3, 4}));
}

TEST(Differentiate, AddsUpWhatFlowsThroughSeveralPaths) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f64, {2, 3}), w = b.input("w", DType::f64, {3}),
                unused = b.input("unused", DType::f64, {4});
  const ValueId y = b.add("Mul", {b.add("Add", {x, w}), x});
  const ValueId loss = b.add("ReduceSum", {b.add("Mean", {y, b.add("Relu", {y})})}, {{"keepdims", int64_t{0}}});
  const std::vector<ValueId> wrt{x, w, unused, y};
  for (const ValueId gradient : differentiate(graph, loss, wrt)) graph.add_output(gradient, "");
  const std::vector<Tensor> inputs{Tensor::of<double>({2, 3}, {1, -1, 2, 3, -4, 5}),
                                   Tensor::of<double>({3}, {1, 2, -1}), Tensor::zeros(DType::f64, Shape{4})};
  const std::vector<Tensor> out = interpret(graph, inputs);
  // y = (x + w) x; dy = 1 where y > 0, else 1/2; dx = dy (2 x + w), dw = sum of dy x.
  EXPECT_EQ(elements<double>(out[3]), (std::vector<double>{1, 0.5, 1, 1, 1, 1}));
  EXPECT_EQ(elements<double>(out[0]), (std::vector<double>{3, 0, 3, 7, -6, 9}));
  EXPECT_EQ(elements<double>(out[1]), (std::vector<double>{4, -4.5, 7}));
  EXPECT_EQ(elements<double>(out[2]), (std::vector<double>{0, 0, 0, 0}));
}

TEST(Differentiate, RefusesByName) {
  const auto error = [](const char* op, bool whole) {
    Graph graph;
    Builder b(graph);
    const ValueId x = b.input("x", DType::f32, {2, 3});
    const ValueId y = b.add(op, {x}, {}, "the node");
    const ValueId loss = whole ? b.add("ReduceSum", {y}, {{"keepdims", int64_t{0}}}) : y;
    try {
      differentiate(graph, loss, std::vector{x});
    } catch (const Error& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("Hardmax", true),
            "Hardmax has no gradient: its results are constant between jumps (node \"the node\")");
  EXPECT_EQ(error("Relu", false), "the loss has the shape [2,3], gradients need one element");
}

// An expansion that gives no second output serves those who do not read it, and nobody else.
TEST(Differentiate, RefusesAnExpansionThatLeavesAUsedOutputOut) {
  OpDef op{.name = "Halved", .inputs = {1, 1}, .outputs = {1, 2}, .expand = [](ExpandContext& e) {
             return std::vector<ValueId>{e.b.add("Mul", {e.in(0), e.b.scalar(DType::f32, 0.5)})};
           }};
  for (const bool used : {false, true}) {
    Graph graph;
    Builder b(graph);
    const ValueId x = b.input("x", DType::f32, {2});
    const NodeId node = graph.add_node(op, {x}, {}, 2, "the node");
    const std::vector<ValueId> halves = graph.node(node).outputs;
    for (const ValueId half : halves) {
      graph.value(half).dtype = DType::f32;
      graph.value(half).shape = Shape{2};
    }
    const ValueId loss = b.add("ReduceSum", {halves[0]}, {{"keepdims", int64_t{0}}});
    if (used) graph.add_output(halves[1], "second");
    std::string refused;
    try {
      differentiate(graph, loss, std::vector{x});
    } catch (const Error& error) {
      refused = error.what();
    }
    EXPECT_EQ(refused, used ? "Halved: its expansion leaves out output 1, which is used (node \"the node\")" : "");
  }
}

}  // namespace
}  // namespace sparkpilot

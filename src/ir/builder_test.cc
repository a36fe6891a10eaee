#include "sparkpilot/builder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

template <typename Fn>
std::string refusal(Fn fn) {
  try {
    fn();
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user) << error.what();
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(Builder, TypesAreThereAtOnce) {
  Graph graph;
  Builder b(graph, "net");
  const ValueId x = b.input("x", DType::f32, {2, 3});
  const ValueId y = b.add("MatMul", {x, b.constant(Tensor::zeros(DType::f32, {3, 5}), "w")}, {}, "project");
  EXPECT_EQ(b.dtype(y), DType::f32);
  EXPECT_EQ(b.shape(y), (Shape{2, 5}));
  EXPECT_EQ(graph.label(graph.value(y).producer), "net/project");
  const std::vector<ValueId> parts = b.add_many("Split", {y, b.ints({2, 3})}, {{"axis", 1}}, 2);
  EXPECT_EQ(b.shape(parts[1]), (Shape{2, 3}));
  EXPECT_EQ(graph.label(graph.value(parts[0]).producer), "net/Split");
  b.output(parts[1], "y");
  EXPECT_EQ(graph.outputs()[0].name, "y");
  Builder bare(graph);
  const ValueId relu = bare.add("Relu", {x});
  EXPECT_EQ(graph.label(graph.value(relu).producer), "Relu#2");
}

TEST(Builder, BehindOpenDimensionsTheTypesWait) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.open_input("x", DType::f32, {{-1, "batch"}, {3}});
  const ValueId y = b.add("Relu", {x});
  EXPECT_TRUE(contains(refusal([&] { b.shape(y); }), "is not known yet"));
}

TEST(Builder, TheOpsetPicksTheVersion) {
  Graph graph;
  Builder old(graph, "", 12), now(graph, "", 13);
  const ValueId x = now.input("x", DType::f32, {2, 1});
  EXPECT_TRUE(contains(refusal([&] { now.add("Squeeze", {x}, {{"axes", std::vector<int64_t>{1}}}); }), "axes"));
  EXPECT_EQ(refusal([&] { old.add("Squeeze", {x}, {{"axes", std::vector<int64_t>{1}}}); }), "");
}

TEST(Builder, MistakesNameOpAndNode) {
  Graph graph;
  Builder b(graph, "net");
  const ValueId x = b.input("x", DType::f32, {2, 3});
  const size_t before = graph.order().size();
  const auto said = [&](auto fn) { return refusal(fn); };
  EXPECT_EQ(said([&] { b.add("Rellu", {x}); }), "no op is named \"Rellu\" in opset 26 (did you mean Relu?)");
  EXPECT_TRUE(contains(said([&] { b.add("nowhere::Relu", {x}); }), "no op is named \"nowhere::Relu\""));
  EXPECT_EQ(said([&] {
              b.add("Relu", {x, x}, {}, "first");
            }),
            "Relu: 2 inputs given, expected 1 to 1 (node \"net/first\")");
  EXPECT_TRUE(contains(said([&] { b.add("Relu", {}); }), "0 inputs given, expected 1 to 1 (node \"net/Relu\")"));
  EXPECT_TRUE(contains(said([&] { b.add("Add", {ValueId{}, x}); }), "input 0 is missing"));
  EXPECT_TRUE(contains(said([&] { b.add("Relu", {ValueId{77}}); }), "Relu: input 0 is value 77, the graph has "));
  EXPECT_TRUE(contains(said([&] { b.add("Softmax", {x}, {{"axis", "last"}}); }), "attribute axis is"));
  EXPECT_TRUE(contains(said([&] { b.add("Softmax", {x}, {{"axle", 1}}); }), "has no attribute axle"));
  EXPECT_TRUE(contains(said([&] { b.add("MatMul", {x, x}, {}, "square"); }), "(node \"net/square\")"));
  EXPECT_TRUE(contains(said([&] { b.add_many("Relu", {x}, {}, 2); }), "2 outputs asked for, expected 1 to 1"));
  EXPECT_EQ(graph.order().size(), before);  // none of them is in the graph
}

TEST(Builder, StatesAndOutputsAreHeldToWhatTheyAre) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", DType::f32, {2});
  const ValueId h = b.state(Tensor::zeros(DType::f32, {2}), "h");
  EXPECT_EQ(refusal([&] { b.next(h, b.ints({1, 2})); }), "state \"h\" is f32[2], its next value i64[2]");
  EXPECT_EQ(refusal([&] { b.next(h, b.constant(Tensor::zeros(DType::f32, {3}))); }),
            "state \"h\" is f32[2], its next value f32[3]");
  EXPECT_TRUE(contains(refusal([&] { b.next(x, h); }), "\"x\" (value 0) is no state"));
  EXPECT_TRUE(contains(refusal([&] { b.next(h, {}); }), "the next value of state \"h\" is absent"));
  EXPECT_TRUE(contains(refusal([&] { b.output({}, "y"); }), "output \"y\" is absent"));
  EXPECT_TRUE(contains(refusal([&] { b.output({50}, "y"); }), "output \"y\" is value 50, the graph has"));
  EXPECT_EQ(refusal([&] { b.next(h, b.add("Add", {x, h})); }), "");
}

}  // namespace
}  // namespace sparkpilot
